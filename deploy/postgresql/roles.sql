-- Run once by an administrator with psql, as docker-compose.yml does on its first start. Creates the roles of the service
-- with its database, and the owner of Temporal's databases.
\getenv owner_password OWNER_PASSWORD
\getenv app_password APP_PASSWORD
\getenv temporal_password TEMPORAL_PASSWORD

CREATE ROLE impact_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE impact_app LOGIN PASSWORD :'app_password';
CREATE DATABASE impact OWNER impact_owner;

CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

-- Neither of them may enter the databases of the other. Migrations let impact_app in.
REVOKE CONNECT, TEMPORARY ON DATABASE impact, temporal, temporal_visibility FROM PUBLIC;
