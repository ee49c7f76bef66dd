import { hostname } from "node:os";
import { readDeployment } from "./deployment.sql.ts";
import type { ServerMark } from "./deployment.sql.ts";
import { deploymentNameOf, UNDECIDED_COPY } from "./deployment.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { Context } from "../../runtime/context.ts";
import { guardUsage } from "./holdUsage.ts";

/**
 * Returns the deployment's name in Temporal, or null if the database was restored, promoted or copied and no operator has
 * decided yet whether it replaces the old one: the old one's programs may use the same workflows and task queues.
 */
export const findDeploymentName = async (context: Context): Promise<string | null> => {
  await guardUsage(context);
  const deployment = await readDeployment(context.db);
  return deployment.isServerChanged ? null : deploymentNameOf(deployment);
};

/** @throws DomainError request_invalid if the deployment has no name because of a restore, promotion or copy */
export const getDeploymentName = async (context: Context): Promise<string> => {
  const name = await findDeploymentName(context);
  if (name === null) {
    throw invalidRequest(UNDECIDED_COPY);
  }
  return name;
};

/**
 * Returns a function that returns the deployment's name as soon as it is decided. Once it is known, it stays: a process
 * goes on when a standby is promoted while it runs.
 */
export const createDeploymentName = async (context: Context): Promise<() => Promise<string>> => {
  let known = await findDeploymentName(context);
  return async () => {
    const name = known ?? (await getDeploymentName(context));
    known = name;
    return name;
  };
};

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
