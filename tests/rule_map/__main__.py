"""Write the page of constraints that no rule can check."""

from tests.rule_map import PAGE, page

PAGE.parent.mkdir(parents=True, exist_ok=True)
PAGE.write_text(page(), encoding="utf-8")
