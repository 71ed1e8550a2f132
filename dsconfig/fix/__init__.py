"""Fix diagnostics until no fixable one is left, and migrate configs between releases."""
