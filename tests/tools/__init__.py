"""Programs that help to change the project, beside its tests."""
