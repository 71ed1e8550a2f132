"""From a source to its report: read, evaluate for each release, merge, suppress."""
