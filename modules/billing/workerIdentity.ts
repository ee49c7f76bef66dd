import { hostname } from "node:os";
import type { ServerMark } from "./deployment.sql.ts";

/** Returns how a worker is named in Temporal: the process, its host and the database that it uses. */
export const workerIdentity = ({ database, timeline }: ServerMark): string =>
  `${process.pid}@${hostname()}/${database}-${timeline}`;

const MARK = /\/(?<database>[0-9a-f]{8})-(?<timeline>[0-9A-F]{8})$/u;

/**
 * Returns whether a worker uses another database than the given one. A worker goes on when its database is promoted, so an
 * earlier timeline is that of the same database; a later one is that of a copy.
 */
export const usesOtherDatabase = (
  identity: string,
  { database, timeline }: ServerMark,
): boolean => {
  const mark = MARK.exec(identity)?.groups;
  return (
    mark !== undefined &&
    (mark["database"] !== database || (mark["timeline"] ?? timeline) > timeline)
  );
};
