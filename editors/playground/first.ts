/** Answers about the text with which the page opens. They are computed when the site is built: Python needs seconds to start. */

import type { CommandOutput } from "../worker/client";
import type { Answers, Command, Fix, Format, JobOptions, LspDiagnostic } from "./engine";

/** Content of `data-answers`, which `site/live_example.py` writes. */
interface Data {
  readonly items: readonly LspDiagnostic[];
  readonly fixes: readonly Fix[];
  readonly show: CommandOutput;
}

export class FirstAnswers implements Answers {
  private readonly data: Data;
  private readonly job: string;

  constructor(
    data: string,
    private readonly text: string,
    private readonly format: Format,
    job: JobOptions,
  ) {
    this.data = JSON.parse(data) as Data;
    this.job = JSON.stringify(job);
  }

  /** Whether the answers hold for this text and these options. */
  cover(text: string, format: Format, job: JobOptions): boolean {
    return text === this.text && format === this.format && JSON.stringify(job) === this.job;
  }

  async check(): Promise<readonly LspDiagnostic[]> {
    return this.data.items;
  }

  async fixes(): Promise<readonly Fix[]> {
    return this.data.fixes;
  }

  async command(name: Command): Promise<CommandOutput> {
    return name === "show" ? this.data.show : { code: 0, stdout: "", stderr: WAITING };
  }
}

/** Status of a page whose checker has not started yet. */
export const WAITING = "starting dsconfig…";
