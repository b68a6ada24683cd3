"""Work on the project itself: packages, and releases. No package of Quorate imports it."""
