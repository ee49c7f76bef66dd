import { z } from "zod";
import { parserOf } from "../../arguments.ts";
import { acknowledgeDrift } from "../../../services/billing/reconciliation/acknowledgeDrift.ts";
import type { Context } from "../../context.ts";
import { CommandError, describeError, EXIT, exitCodeOf } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { actorOf, operatorName } from "../../operator.ts";
import { printJson, printTable } from "../../output/print.ts";
import { timeOf } from "./presentEvent.ts";

export type AcknowledgeOptions = {
  readonly reason: string;
  readonly as?: string;
  readonly json?: true;
};

export const parseDifferenceId = parserOf(
  z
    .string()
    .regex(/^\d{1,18}$/u)
    .transform(BigInt),
  "the id of a difference",
);

const HEADINGS = ["difference", "customer", "mode", "meter", "minute", "units"];

/** Acknowledges each difference separately: an unknown one does not stop the others. */
export const acknowledge = async (
  { io, connections, clock }: Context,
  ids: readonly bigint[],
  { reason, as, json }: AcknowledgeOptions,
): Promise<void> => {
  const deps = { db: await connections.database(), clock, actor: actorOf({ as, reason }) };
  const operator = operatorName(as);
  const acknowledged: object[] = [];
  const rows: (readonly (string | number | Date)[])[] = [];
  const errors: unknown[] = [];
  for (const id of ids) {
    try {
      const { customer, mode, meter, minute, units, processor } = await acknowledgeDrift(deps, id, {
        reason,
        operator,
      });
      rows.push([String(id), customer, mode, meter, timeOf(minute), units]);
      acknowledged.push({
        difference_id: Number(id),
        processor,
        customer,
        mode,
        meter,
        minute: timeOf(minute),
        units,
        reason,
        acknowledged_by: operator,
      });
    } catch (error) {
      say(io, `Difference ${id}: ${describeError(error)}`);
      errors.push(error);
    }
  }
  if (json) {
    printJson(io, acknowledged);
  } else if (rows.length > 0) {
    printTable(io, HEADINGS, rows);
  }
  if (rows.length > 0) {
    say(
      io,
      `Acknowledged by ${operator}. A difference is reported again only if it changes. To update the metrics now, run: impact usage reconcile`,
    );
  }
  if (errors.length > 0) {
    throw new CommandError(
      errors.every((error) => exitCodeOf(error) === EXIT.notFound) ? EXIT.notFound : EXIT.failed,
      `${errors.length} of ${ids.length} could not be acknowledged.`,
    );
  }
};
