import { listWaitingStreams } from "../../../../db/billing/waitingStreams.ts";
import type { WaitingStream } from "../../../../db/billing/waitingStreams.ts";
import { findSender, terminateSender, wakeSender } from "../../../../program/usageSenders.ts";
import { recordAction } from "../../../../services/accounts/recordAction.ts";
import { getOrganization } from "../../../../services/accounts/getOrganization.ts";
import { usageSenderWorkflowId } from "../../../../workflows/usageSender.ts";
import { callTemporal } from "../../../callTemporal.ts";
import type { Context } from "../../../context.ts";
import { say } from "../../../io.ts";
import { actorOf } from "../../../operator.ts";
import type { OperatorOptions } from "../../../operator.ts";
import { printJson, printTable } from "../../../output/print.ts";
import { timeOf } from "../presentEvent.ts";

export type SendNowOptions = OperatorOptions & { readonly org?: string; readonly json?: true };

/** Wakes a sender. If it waits for its next attempt, a wake would not shorten the wait, so it is restarted. */
const sendStreamNow = async (
  { connections, clock }: Context,
  deployment: string,
  stream: WaitingStream,
): Promise<"woken" | "restarted"> => {
  const temporal = await connections.temporal();
  return callTemporal(temporal, async () => {
    const workflowId = usageSenderWorkflowId(deployment, stream);
    const sender = await findSender(temporal, workflowId, clock.now());
    const isDelayed = sender?.state === "delayed";
    if (isDelayed) {
      const { runId } = sender;
      await terminateSender(temporal, workflowId, { runId, reason: "impact usage send-now" });
    }
    await wakeSender(temporal, deployment, stream);
    return isDelayed ? "restarted" : "woken";
  });
};

export const sendUsageNow = async (
  context: Context,
  { org, json, ...operator }: SendNowOptions,
): Promise<void> => {
  const { io, connections, clock } = context;
  const db = await connections.database();
  if (org !== undefined) {
    await getOrganization(db, org);
  }
  const streams = (await listWaitingStreams(db)).filter(
    ({ accountId }) => org === undefined || accountId === org,
  );
  const deployment = await connections.decidedDeploymentName();
  if (streams.length > 0) {
    await recordAction(
      db,
      actorOf(operator),
      { action: "usage.send_now", accountId: org ?? null, details: { streams: streams.length } },
      clock.now(),
    );
  }
  const results = [];
  for (const stream of streams) {
    const { accountId, mode, meter, second } = stream;
    const sender = await sendStreamNow(context, deployment, stream);
    results.push({ account_id: accountId, mode, meter, oldest: timeOf(second), sender });
  }
  if (json) {
    printJson(io, results);
    return;
  }
  if (results.length === 0) {
    say(io, "No usage is pending.");
    return;
  }
  printTable(
    io,
    ["account", "mode", "meter", "oldest", "sender"],
    results.map((result) => [
      result.account_id,
      result.mode,
      result.meter,
      result.oldest,
      result.sender,
    ]),
  );
  say(io, `A worker sends the usage of ${results.length} stream(s) now.`);
};
