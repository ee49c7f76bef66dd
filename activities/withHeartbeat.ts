import { Context } from "@temporalio/activity";

const HEARTBEAT_INTERVAL_MS = 3000;

/**
 * Sends heartbeats while the work runs, so that the server notices a dead worker even during one slow call. The signal that
 * the work receives is aborted when Temporal cancels the activity.
 */
export const withHeartbeat = async <Result>(
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> => {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), HEARTBEAT_INTERVAL_MS);
  try {
    return await work(context.cancellationSignal);
  } finally {
    clearInterval(timer);
  }
};
