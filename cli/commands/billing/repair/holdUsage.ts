import { describeHold } from "../../../../domain/billing/deployment.ts";
import { holdUsage, releaseUsage } from "../../../../services/billing/holdUsage.ts";
import type { Context } from "../../../context.ts";
import { actorOf, operatorName } from "../../../operator.ts";
import { printText } from "../../../output/print.ts";

export type HoldOptions = { readonly reason: string; readonly as?: string };

export const holdAllUsage = async (
  { io, connections, clock }: Context,
  { reason, as }: HoldOptions,
): Promise<void> => {
  const hold = await holdUsage(
    { db: await connections.database(), clock, actor: actorOf({ as, reason }) },
    { reason, by: operatorName(as) },
  );
  printText(
    io,
    `Nothing is sealed or sent, because ${describeHold(hold)}. Calls that have begun end within 15 seconds.`,
  );
};

export const releaseAllUsage = async (
  { io, connections, clock }: Context,
  { as, reason }: Partial<HoldOptions>,
): Promise<void> => {
  const hold = await releaseUsage(
    { db: await connections.database(), clock, actor: actorOf({ as, reason }) },
    operatorName(as),
  );
  printText(
    io,
    hold
      ? `Released the hold of ${hold.by} (${hold.reason}). The workers send usage within 30 seconds.`
      : "Usage was not held.",
  );
};
