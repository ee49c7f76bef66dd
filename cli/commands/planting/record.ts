import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import type { z } from "zod";
import { plantingReport } from "../../../domain/planting/fact.ts";
import { wakePlantingOrder } from "../../../program/wakePlantingOrder.ts";
import { reportPlanting } from "../../../services/planting/reportPlanting.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { unreadableFile } from "../../input/unreadableFile.ts";
import { say } from "../../io.ts";
import { printJson, printTable } from "../../output/print.ts";

const WAKE_WITHIN_MS = 2000;

const parseReport = (json: string): z.output<typeof plantingReport> => {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new CommandError(EXIT.failed, `The file is not JSON: ${String(error)}`, { cause: error });
  }
  const result = plantingReport.safeParse(value);
  if (!result.success) {
    const lines = result.error.issues.map(({ path, message }) => `  ${path.join(".")}: ${message}`);
    throw new CommandError(
      EXIT.failed,
      `The file cannot be used, and nothing was recorded:\n${lines.join("\n")}`,
    );
  }
  return result.data;
};

/** Wakes the order's workflow where Temporal is up; elsewhere it finds out at its next look. */
const wake = async ({ io, connections }: Context, orderId: number): Promise<void> => {
  // Where nothing is set up to connect to, there is nobody to be told.
  const temporal = await connections.temporal().catch(() => null);
  if (temporal === null || !(await wakePlantingOrder(temporal, orderId, WAKE_WITHIN_MS))) {
    say(
      io,
      "The order's workflow could not be told; where it still runs it finds out at its next look.",
    );
  }
};

const readReport = async ({ stdin }: Context["io"], file: string): Promise<string> => {
  try {
    return file === "-" ? await text(stdin) : await readFile(file, "utf8");
  } catch (error) {
    throw unreadableFile(file, error);
  }
};

/** Records what an operator knows of an order from a file, or from standard input where it is `-`. */
export const recordEvidence = async (
  context: Context,
  file: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const { io, connections, clock } = context;
  const report = parseReport(await readReport(io, file));
  const recorded = await reportPlanting(
    {
      db: await connections.database(),
      clock,
      wakeOrder: (orderId) => wake(context, orderId),
    },
    report,
    "operator",
  );
  if (json) {
    printJson(io, recorded);
  } else {
    printTable(
      io,
      ["stage", "outcome", "reason"],
      recorded.map(({ stage, outcome, reason }) => [stage, outcome, reason]),
    );
  }
  if (recorded.some(({ outcome }) => outcome === "contradiction")) {
    throw new CommandError(
      EXIT.failed,
      "Something contradicts what is on record; it is kept, and shown by `evidence order show`.",
    );
  }
};
