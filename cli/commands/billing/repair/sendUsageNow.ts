import { ownerKey } from "../../../../domain/accounts/accounts.ts";
import { timeOf } from "../../../../domain/billing/usage.ts";
import { counted } from "../../../../domain/counted.ts";
import { sendUsageNow as send } from "../../../../services/billing/sending/sendUsageNow.ts";
import type { CliContext } from "../../../context.ts";
import { say } from "../../../io.ts";
import { actorOf } from "../../../operator.ts";
import type { ChangeOptions } from "../../../operator.ts";
import { printJson, printRows } from "../../../output/print.ts";
import { sayIfHeld } from "../sayIfHeld.ts";

export type SendNowOptions = ChangeOptions & { readonly org?: string };

/** A longer list would hide what it says. */
const LISTED_STREAMS = 50;

export const sendUsageNow = async (
  { io, connections, clock }: CliContext,
  { org, json, ...operator }: SendNowOptions,
): Promise<void> => {
  const db = await connections.database();
  // An undecided copy of the database must not send usage.
  await connections.decidedDeploymentName();
  const { streams, delayedKeys } = await send({ db, clock, actor: actorOf(operator) }, org ?? null);
  const isHeld = await sayIfHeld(io, db);
  if (json) {
    printJson(
      io,
      streams.map((stream) => ({
        account_id: stream.accountId,
        mode: stream.mode,
        meter: stream.kind,
        oldest: timeOf(stream.second),
        attempts: stream.attempts,
        was_delayed: delayedKeys.has(ownerKey(stream)),
      })),
    );
    return;
  }
  if (streams.length === 0) {
    say(io, "No usage is pending.");
    return;
  }
  printRows(io, streams.slice(0, LISTED_STREAMS), {
    account: (stream) => stream.accountId,
    mode: (stream) => stream.mode,
    meter: (stream) => stream.kind,
    oldest: (stream) => timeOf(stream.second),
    attempts: (stream) => String(stream.attempts),
    "was delayed": (stream) => delayedKeys.has(ownerKey(stream)),
  });
  if (streams.length > LISTED_STREAMS) {
    say(io, `Only the oldest ${LISTED_STREAMS} streams are listed. See all with --json.`);
  }
  if (!isHeld) {
    say(
      io,
      `Workers send the usage of ${counted(streams.length, "stream")} within seconds; ${delayedKeys.size} of them waited for another attempt.`,
    );
  }
};
