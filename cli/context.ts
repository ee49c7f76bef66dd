import type { Clock } from "../domain/clock.ts";
import type { Connections } from "./connections.ts";
import type { Io } from "./io.ts";

/** What every command is given. */
export type Context = {
  readonly io: Io;
  readonly connections: Connections;
  readonly clock: Clock;
};
