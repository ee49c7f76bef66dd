import { accountModeKey } from "../../modules/records/owner.rules.ts";
import { runForClient } from "../../runtime/client.ts";
import { Gate } from "../../runtime/gate.ts";
import { nameClient, passOf } from "../../runtime/server/openDoor.ts";
import { callerOf } from "./requestContext.ts";
import type { RequestContext } from "./requestContext.ts";

/** Runs a request as one of a client, for whose turn it may wait before its body is read, and its queries as those of a group. */
export const runAs = async (
  { req }: RequestContext,
  client: string,
  group: string,
  work: () => Promise<unknown>,
): Promise<void> => {
  const turn = nameClient(req, client);
  if (turn !== null) {
    await turn;
  }
  await runForClient(group, work);
};

/** Runs a request at another gate than that of the process, which decides from now on when it runs. */
export const runAt = <Result>(
  ctx: RequestContext,
  gate: Gate,
  work: () => Promise<Result>,
): Promise<Result> => {
  const pass = passOf(ctx.req);
  pass?.gate.leave(pass);
  ctx.state.gate = gate;
  return gate.run(accountModeKey(callerOf(ctx)), work);
};

/** In which the requests of one key to an endpoint are limited. */
export const RATE_WINDOW_MS = 1000;

/** Each may take some ten megabytes until its response has been read. */
export const CONCURRENT_BATCHES = 16;

/** Of lists that are sent at the same time. Each may hold a megabyte until its client has read it. */
const MAXIMUM_LISTS = 64;

/** Creates the gate of lists. */
export const createListGate = (): Gate => new Gate({ places: MAXIMUM_LISTS });
