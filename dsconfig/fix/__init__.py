"""Fix diagnostics until none is fixable, and migrate configs between releases."""
