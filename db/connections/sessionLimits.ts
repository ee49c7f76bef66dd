/** How long PostgreSQL lets a session be busy, or idle in a transaction; 0 without a limit. */
export type SessionLimits = {
  readonly statementTimeoutMs: number;
  readonly idleInTransactionTimeoutMs: number;
};

/** Of a pool that does not ask for others. */
export const DEFAULT_LIMITS: SessionLimits = {
  statementTimeoutMs: 60_000,
  idleInTransactionTimeoutMs: 60_000,
};

const isWithin = (settingMs: number, limitMs: number): boolean =>
  settingMs > 0 && settingMs <= limitMs;

/** Returns whether the settings of a role or a database are at least as strict as a pool's limits. */
export const areWithin = (settings: SessionLimits, limits: SessionLimits): boolean =>
  isWithin(settings.statementTimeoutMs, limits.statementTimeoutMs) &&
  isWithin(settings.idleInTransactionTimeoutMs, limits.idleInTransactionTimeoutMs);
