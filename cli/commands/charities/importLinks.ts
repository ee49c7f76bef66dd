import { counted } from "../../../domain/counted.ts";
import { importCharityLinks } from "../../../services/charities/importCharityLinks.ts";
import type { CliContext } from "../../context.ts";
import { openInput } from "../../input/openInput.ts";
import { readTextLines } from "../../input/readTextLines.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson } from "../../output/print.ts";
import { requireNoneSkipped } from "./requireNoneSkipped.ts";

/** Further bad lines are only counted. */
const BAD_LINES_SHOWN = 20;

export const importLinks = async (
  context: CliContext,
  path: string,
  { json, ...operator }: ChangeOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const { bytes } = await openInput(path, io);
  let shown = 0;
  const counts = await importCharityLinks(deps, readTextLines(bytes), (line, problem) => {
    shown += 1;
    if (shown <= BAD_LINES_SHOWN) {
      say(io, `Line ${line} skipped: ${problem}`);
    }
  });
  if (json) {
    printJson(io, counts);
  } else {
    say(
      io,
      `Updated ${counted(counts.updated, "charity", "charities")}; ${counts.unknown} not in the catalogue, ${counted(counts.bad, "malformed line")}.`,
    );
  }
  requireNoneSkipped(counts.bad);
};
