import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { Command } from "commander";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { importRegistrations } from "../../../services/registrations/importRegistrations.ts";
import { parseId, parseMode } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { unreadableFile } from "../../input/unreadableFile.ts";
import { say } from "../../io.ts";
import { createProgressBar } from "../../output/createProgressBar.ts";
import { printJson, printRecord } from "../../output/print.ts";
import { readLines } from "./readLines.ts";

const FORMAT_HELP = `
FILE holds one JSON object a line, - reads them from stdin:
  {"kind":"tree","count":3,"created_at":"2024-05-01T09:30:00Z"}
Also: fractional_count, attribution, metadata, idempotency_key.

What is imported counts in the totals and lists. It has no usage: it is not billed,
and a refund of it is refused. Importing a file again changes nothing, so an import
that was cut off is simply run again: a line with an idempotency_key stands for one
registration, in the key space of the API; of lines without one that say the same,
the second stands for a second registration. So give what belongs together as one
file: two files that hold the same line mean the same registration.

Lines that cannot be imported are told by number and left out; the exit code is 1 then.`;

type ImportOptions = { readonly org: string; readonly mode: Mode; readonly json?: true };

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
    throw unreadableFile(path, error);
  }
};

const importFile = async (
  context: Context,
  path: string,
  { org, mode, json }: ImportOptions,
): Promise<void> => {
  const { io, connections, clock } = context;
  const source = await openFile(path, context);
  const db = await connections.database();
  const account = await getOrganization(db, org);
  const bar = createProgressBar(io);
  const startedAtMs = performance.now();
  let bytesRead = 0;
  const lines = readLines(source.stream, (bytes) => {
    bytesRead += bytes;
  });
  const importing = importRegistrations({ db, clock }, account, mode, lines, {
    onFault: (number, fault) => {
      bar.clear();
      say(io, `line ${number}: ${fault}`);
    },
    onProgress: ({ lines: done }) => {
      const rate = Math.round((done / (performance.now() - startedAtMs)) * 1000);
      bar.update(
        source.bytes === null ? null : bytesRead / source.bytes,
        `${done.toLocaleString("en-US")} lines, ${rate.toLocaleString("en-US")} a second`,
      );
    },
  });
  const summary = await importing.catch((error: unknown) => {
    bar.clear();
    say(io, "It was cut off. Nothing is imported twice: run it again to complete it.");
    throw error;
  });
  bar.clear();
  if (json) {
    printJson(io, summary);
  } else {
    printRecord(io, {
      lines: summary.lines,
      imported: summary.imported,
      "already there": summary.known,
      refused: summary.refused,
    });
  }
  if (summary.refused > 0) {
    throw new CommandError(
      EXIT.failed,
      `${summary.refused} of ${summary.lines} lines were left out.`,
    );
  }
};

export const addImportCommands = (program: Command, context: Context): void => {
  const group = program.command("import").description("take over history of another system");
  group
    .command("registrations")
    .description("import tree and bottle registrations that were billed elsewhere")
    .argument("<file>", "lines of JSON, or - for stdin")
    .requiredOption("--org <id>", "whose registrations they are", parseId)
    .option("--mode <mode>", "live or test", parseMode, "live")
    .option("--json", "print JSON")
    .addHelpText("after", FORMAT_HELP)
    .action((path: string, options: ImportOptions) => importFile(context, path, options));
};
