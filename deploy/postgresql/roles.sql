-- Run once by an administrator with psql, as docker-compose.yml does on its first start. Creates the owner of the
-- service's database and that of Temporal's. `impact migrate` creates the roles of the programs and of people.
-- On PostgreSQL 15, remove CREATEROLE, which allows too much there, and create these roles yourself: docs/operations.md.
\getenv owner_password OWNER_PASSWORD
\getenv temporal_password TEMPORAL_PASSWORD

CREATE ROLE impact_owner LOGIN CREATEROLE PASSWORD :'owner_password';
CREATE DATABASE impact OWNER impact_owner;

CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

-- Neither of them may enter the databases of the other.
REVOKE CONNECT, TEMPORARY ON DATABASE impact, temporal, temporal_visibility FROM PUBLIC;
