import { readFileSync } from "node:fs";

/** Returns the resident memory of a process in bytes, NaN if the system does not report it. */
export const readResidentBytes = (pid: number): number => {
  if (process.platform !== "linux") {
    return Number.NaN;
  }
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(?<kib>\d+) kB/mu.exec(status)?.groups?.["kib"]) * 1024;
};
