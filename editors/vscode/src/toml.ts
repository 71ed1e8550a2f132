/** Changes one key of a settings file, and keeps the rest of its text. */

/** Text with a root key set to a value in TOML, or removed if the value is empty. */
export function withSetting(text: string, key: string, value: string): string {
  const lines = text ? text.split(/(?<=\n)/) : [];
  const table = lines.findIndex((line) => /^\s*\[/.test(line));
  const end = table < 0 ? lines.length : table;
  const names = new RegExp(`^\\s*(["']?)${key}\\1\\s*=`);
  const at = lines.slice(0, end).findIndex((line) => names.test(line));
  const assignment = value && `${key} = ${value}\n`;
  if (at >= 0) {
    lines.splice(at, 1, ...(assignment ? [assignment] : []));
  } else if (assignment) {
    const before = lines[end - 1];
    if (before !== undefined && !before.endsWith("\n")) {
      lines[end - 1] = `${before}\n`;
    }
    lines.splice(end, 0, assignment);
  }
  return lines.join("");
}
