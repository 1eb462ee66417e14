const WORDS = ["gluten", "nuts", "milk", "egg", "soy", "celery"];
const PATTERN = new RegExp(`\\b(${WORDS.join("|")})\\b`, "gi");

/** Wraps allergen words in <mark>. The text may carry the menu editor's own markup. */
export function highlightAllergens(text: string): string {
  return text.replace(PATTERN, "<mark>$1</mark>");
}
