import { updateCharityLinks } from "./charities.sql.ts";
import type { CharityLinks } from "./charityLinks.rules.ts";
import { readLinksLine } from "./charityLinks.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";

const BATCH_LINES = 2000;

type LinksImport = {
  /** Charities that the file names and the catalogue has. */
  readonly updated: number;
  readonly unknown: number;
  /** Malformed lines, which were skipped. */
  readonly bad: number;
};

/**
 * Stores the websites and icons of charities of the catalogue. Importing a file again changes nothing.
 * @param lines one JSON object a line
 */
export const importCharityLinks = async (
  { db, clock, actor }: OperatorContext,
  lines: AsyncIterable<string>,
  onBadLine: (line: number, problem: string) => void,
): Promise<LinksImport> => {
  await recordAction(db, actor, clock.now(), { action: "charity.links" });
  let batch: CharityLinks[] = [];
  let counts: LinksImport = { updated: 0, unknown: 0, bad: 0 };
  const write = async (): Promise<void> => {
    // The last line of an EIN counts.
    const links = [...new Map(batch.map((entry) => [entry.ein, entry])).values()];
    batch = [];
    const updated = await updateCharityLinks(db, links);
    counts = {
      ...counts,
      updated: counts.updated + updated,
      unknown: counts.unknown + links.length - updated,
    };
  };
  let number = 0;
  for await (const line of lines) {
    number += 1;
    if (line.trim() === "") {
      continue;
    }
    const read = readLinksLine(line);
    if ("problem" in read) {
      counts = { ...counts, bad: counts.bad + 1 };
      onBadLine(number, read.problem);
      continue;
    }
    batch.push(read);
    if (batch.length === BATCH_LINES) {
      await write();
    }
  }
  await write();
  return counts;
};
