import {
  listWaitingRefunds,
  markRefundsDispatched,
} from "../../../modules/registrations/refunds.sql.ts";
import { refund, refundedSignal } from "../../../workflows/refund.ts";
import { backgroundQueue, refundWorkflowId } from "../../../runtime/temporalNames.rules.ts";
import { forEachConcurrently } from "../../createWaker.ts";
import { callTemporal } from "../../callTemporal.ts";
import type { Pass, DispatchContext } from "../../createWaker.ts";

/** One signal for each registration, and one statement that marks its refunds. */
const PER_PASS = { registrations: 200, refunds: 5000 };

/** Starts or signals the workflows of refunds that wait. The accounts take turns. */
export const createStartRefunds = ({ db, clock, temporal, deployment }: DispatchContext): Pass => {
  let lastAccountId: string | null = null;
  return async ({ lease, signal }) => {
    const waiting = await listWaitingRefunds(db, PER_PASS, lastAccountId);
    const accountIds = [...new Set(waiting.map(({ accountId }) => accountId))].toSorted();
    lastAccountId = accountIds.length < PER_PASS.registrations ? null : (accountIds.at(-1) ?? null);
    await forEachConcurrently(waiting, signal, async ({ registrationId, ids }) => {
      await callTemporal(temporal, () =>
        temporal.workflow.signalWithStart(refund, {
          workflowId: refundWorkflowId(deployment, registrationId),
          taskQueue: backgroundQueue(deployment),
          args: [registrationId],
          signal: refundedSignal,
        }),
      );
      await markRefundsDispatched(db, ids, clock.now(), lease);
    });
  };
};
