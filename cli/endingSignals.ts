import { constants } from "node:os";

/** What ends a command: Ctrl-C, a supervisor, a closed terminal. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Runs work. If a signal ends the process meanwhile, `onSignal` runs before that; after SIGKILL it does not.
 * @param onSignal receives the exit code that a shell will report, and must not wait for anything
 */
export const withEndingSignals = async <Result>(
  onSignal: (exitCode: number) => void,
  work: () => Promise<Result>,
): Promise<Result> => {
  const end = (signal: NodeJS.Signals): void => {
    onSignal(128 + constants.signals[signal]);
    // The listener is gone, so this ends the process as the signal would have.
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) {
    process.once(signal, end);
  }
  try {
    return await work();
  } finally {
    for (const signal of SIGNALS) {
      process.off(signal, end);
    }
  }
};
