import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type CertificateFiles = { readonly certificate: string; readonly key: string };

const NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

const openssl = (options: string): void => {
  execFileSync("openssl", options.split(" "), { stdio: ["ignore", "ignore", "pipe"] });
};

/** Creates a certificate authority whose files are in a new folder below `parent`. */
export const createTestCa = (parent: string) => {
  const folder = mkdtempSync(join(parent, "ca-"));
  const inFolder = (name: string): string => join(folder, name);
  const [certificate, key] = [inFolder("ca.pem"), inFolder("ca.key")];
  openssl(`req -x509 ${NEW_KEY} -days 2 -subj /CN=Test-CA -keyout ${key} -out ${certificate}`);
  return {
    certificate,
    /** @param names host names or addresses, with their type: `DNS:localhost` */
    issue: (
      commonName: string,
      { names = [], isExpired = false }: { names?: readonly string[]; isExpired?: boolean } = {},
    ): CertificateFiles => {
      const id = crypto.randomUUID();
      const files = { certificate: inFolder(`${id}.pem`), key: inFolder(`${id}.key`) };
      const [request, extensions] = [inFolder(`${id}.csr`), inFolder(`${id}.ext`)];
      openssl(`req -new ${NEW_KEY} -subj /CN=${commonName} -keyout ${files.key} -out ${request}`);
      writeFileSync(
        extensions,
        `basicConstraints=CA:FALSE\n${names.length > 0 ? `subjectAltName=${names.join(",")}\n` : ""}`,
      );
      openssl(
        `x509 -req -in ${request} -CA ${certificate} -CAkey ${key} -CAcreateserial -days ${isExpired ? -1 : 2} -extfile ${extensions} -out ${files.certificate}`,
      );
      return files;
    },
  };
};
