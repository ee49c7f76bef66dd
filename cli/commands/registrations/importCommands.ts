import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { Command } from "commander";
import type { Account } from "../../../db/accounts/accounts.ts";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { recordAction } from "../../../services/accounts/recordAction.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import type { ImportLine } from "../../../services/registrations/importRegistrations.ts";
import { importRegistrations } from "../../../services/registrations/importRegistrations.ts";
import { parseId, parseMode } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { unreadableFileError } from "../../input/unreadableFileError.ts";
import { say } from "../../io.ts";
import { actorOf, operatorOption, reasonOption } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { createProgressBar } from "../../output/createProgressBar.ts";
import { printJson, printRecord } from "../../output/print.ts";
import { parseImportLine } from "./parseImportLine.ts";
import type { Line } from "./readLines.ts";
import { readLines } from "./readLines.ts";

const FORMAT_HELP = `
FILE holds one JSON object per line; - reads from stdin:
  {"kind":"tree","count":3,"created_at":"2024-05-01T09:30:00Z"}
Optional fields: fractional_count, attribution, metadata, idempotency_key.

Imported registrations count in totals and lists. They have no usage, so they are
not billed and cannot be refunded.

An import can be repeated: a registration that was imported before is skipped, so an
interrupted import is completed by running it again. Lines with the same
idempotency_key are one registration; the API uses the same keys. Equal lines without
a key in one file are separate registrations, but equal lines in two files are the
same registration: do not split the history over several files.

Lines that cannot be imported are reported by number and skipped; the exit code is
then 1.`;

type ImportOptions = OperatorOptions & {
  readonly org: string;
  readonly mode: Mode;
  readonly json?: true;
};

type Source = { readonly stream: Readable; readonly bytes: number | null };

const openFile = async (path: string, { io }: Context): Promise<Source> => {
  if (path === "-") {
    return { stream: io.stdin, bytes: null };
  }
  try {
    const file = await open(path);
    const stat = await file.stat();
    if (stat.isDirectory()) {
      await file.close();
      throw new CommandError(EXIT.usage, `${path} is a folder.`);
    }
    return {
      stream: file.createReadStream({ highWaterMark: 256 * 1024 }),
      // A pipe has no size.
      bytes: stat.isFile() ? stat.size : null,
    };
  } catch (error) {
    if (error instanceof CommandError) {
      throw error;
    }
    throw unreadableFileError(path, error);
  }
};

async function* parseLines(
  lines: AsyncIterable<Line>,
  { fractionalCounting }: Account,
  { clock }: Context,
): AsyncGenerator<ImportLine, void, void> {
  for await (const line of lines) {
    yield "problem" in line
      ? line
      : {
          number: line.number,
          ...parseImportLine(line.text, { now: clock.now(), fractionalCounting }),
        };
  }
}

const importFile = async (
  context: Context,
  path: string,
  { org, mode, json, ...operator }: ImportOptions,
): Promise<void> => {
  const { io, connections, clock } = context;
  const source = await openFile(path, context);
  const db = await connections.database();
  const account = await getOrganization(db, org);
  await recordAction(
    db,
    actorOf(operator),
    { action: "import.registrations", accountId: org, details: { mode } },
    clock.now(),
  );
  const bar = createProgressBar(io);
  const startedAtMs = performance.now();
  let bytesRead = 0;
  const lines = readLines(source.stream, (bytes) => {
    bytesRead += bytes;
  });
  const importing = importRegistrations(
    db,
    { accountId: org, mode },
    parseLines(lines, account, context),
    {
      onProblem: (lineNumber, problem) => {
        bar.clear();
        say(io, `line ${lineNumber}: ${problem}`);
      },
      onProgress: ({ lines: done }) => {
        const rate = Math.round((done / (performance.now() - startedAtMs)) * 1000);
        bar.update(
          source.bytes === null ? null : bytesRead / source.bytes,
          `${done.toLocaleString("en-US")} lines, ${rate.toLocaleString("en-US")} a second`,
        );
      },
    },
  );
  const summary = await importing.catch((error: unknown) => {
    bar.clear();
    say(io, "The import was interrupted. Run it again to complete it; nothing is imported twice.");
    throw error;
  });
  bar.clear();
  if (json) {
    printJson(io, summary);
  } else {
    printRecord(io, {
      lines: summary.lines,
      imported: summary.imported,
      "already imported": summary.known,
      refused: summary.refused,
    });
  }
  if (summary.refused > 0) {
    throw new CommandError(
      EXIT.failed,
      `${summary.refused} of ${summary.lines} lines were not imported.`,
    );
  }
};

export const addImportCommands = (program: Command, context: Context): void => {
  const group = program.command("import").description("Import history from another system");
  group
    .command("registrations")
    .description("Import tree and bottle registrations that another system billed")
    .argument("<file>", "path of a file of JSON lines, or - for standard input")
    .requiredOption("--org <id>", "organization that owns the registrations", parseId)
    .option("--mode <live|test>", "mode of the registrations", parseMode, "live")
    .addOption(reasonOption())
    .addOption(operatorOption())
    .option("--json", "JSON output")
    .addHelpText("after", FORMAT_HELP)
    .action((path: string, options: ImportOptions) => importFile(context, path, options));
};
