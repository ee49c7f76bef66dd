import type { Clock } from "../domain/clock.ts";
import type { Connections } from "./connections.ts";
import type { Io } from "./io.ts";

export type Context = {
  readonly io: Io;
  readonly connections: Connections;
  readonly clock: Clock;
};
