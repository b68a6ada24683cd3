"""The command's surface: tables, errors, options, settings, signals."""
