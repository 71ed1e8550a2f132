/** Texts to start from, each with problems to find. The first one is checked when the site is built. */

import type { Format } from "./engine";
import samples from "./examples.json";

export interface Sample {
  readonly title: string;
  readonly format: Format;
  readonly text: string;
  readonly size?: number;
  readonly target?: string;
}

export const EXAMPLES: readonly Sample[] = samples.map(({ text, format, ...sample }) => ({
  ...sample,
  format: format as Format,
  text: `${text.join("\n")}\n`,
}));
