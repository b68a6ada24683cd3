"""What people and programs see and type: tables, errors, options, settings, signals."""
