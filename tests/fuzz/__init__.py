"""Hostile input: nothing that is read may raise, hang or eat memory, whatever the verb and the output."""
