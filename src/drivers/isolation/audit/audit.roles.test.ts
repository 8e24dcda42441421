/**
 * Tests each rule of `doctor --prove` about roles: a fault on a real server is reported with its code, without further
 * findings.
 */
import { type Fault, useSchemas } from './audit.fixture.ts'

const { findsFaults } = useSchemas()

const roles: readonly Fault[] = [
  {
    code: 'isolation.login-superuser',
    words: 'role $login is a superuser',
    by: 'alter role $login superuser',
    fixedBy: 'alter role $login nosuperuser',
    also: ['isolation.unscoped-read'],
  },
  ...[
    ['login', 'bypasses-rls', 'bypassrls'],
    ['login', 'inherits', 'inherit'],
    ['login', 'creates-databases', 'createdb'],
    ['login', 'creates-roles', 'createrole'],
    ['login', 'replicates', 'replication'],
    ['scope', 'superuser', 'superuser'],
    ['scope', 'bypasses-rls', 'bypassrls'],
    ['scope', 'inherits', 'inherit'],
    ['scope', 'creates-databases', 'createdb'],
    ['scope', 'creates-roles', 'createrole'],
    ['scope', 'replicates', 'replication'],
    ['scope', 'logs-in', 'login'],
  ].map(([who, code, attribute]) => ({
    code: `isolation.${who}-${code}`,
    words: `role $${who} `,
    by: `alter role $${who} ${attribute}`,
    fixedBy: `alter role $${who} no${attribute}`,
    // A superuser has every right everywhere.
    ...(attribute === 'superuser' ? { also: ['isolation.extensions-schema-writable'] } : {}),
  })),
  {
    code: 'isolation.login-owns',
    words: 'role $login owns table public.mine',
    by: 'create table public.mine (); alter table public.mine owner to $login',
    fixedBy: 'drop table public.mine',
    also: ['isolation.table-in-public'], // its name is that of tenants' view
  },
  {
    code: 'isolation.login-owns',
    words: 'role $login owns something in the database postgres',
    by: 'POSTGRES create table public.$other (); alter table public.$other owner to $login',
    fixedBy: 'POSTGRES drop table public.$other',
  },
  {
    code: 'isolation.scope-owns',
    words: 'role $scope owns schema mine',
    by: 'create schema mine authorization $scope',
    fixedBy: 'drop schema mine',
  },
  {
    code: 'isolation.login-member-of',
    words: 'role $login may become $other',
    by: 'grant $other to $login',
    fixedBy: 'revoke $other from $login',
  },
  {
    code: 'isolation.login-inherits-scope',
    words: 'role $login inherits the rights of $scope',
    by: 'grant $scope to $login with inherit true',
    fixedBy: 'grant $scope to $login with inherit false',
    also: ['isolation.unscoped-read'],
  },
  {
    code: 'isolation.login-grants-scope',
    words: 'role $login may grant $scope',
    by: 'grant $scope to $login with admin option',
    fixedBy: 'revoke admin option for $scope from $login',
  },
  {
    code: 'isolation.scope-member',
    words: 'role $other may become $scope',
    by: 'grant $scope to $other',
    fixedBy: 'revoke $scope from $other',
  },
  {
    code: 'isolation.scope-member-of',
    words: 'role $scope may become $other',
    by: 'grant $other to $scope',
    fixedBy: 'revoke $other from $scope',
  },
  {
    code: 'isolation.login-rights',
    words: 'role $login has its own rights on table multitenancy.tenants',
    by: 'grant select on multitenancy.tenants to $login',
    fixedBy: 'revoke all on multitenancy.tenants from $login',
  },
  {
    code: 'isolation.login-rights',
    words: 'role $login has its own rights on database $db',
    by: 'grant create on database $db to $login',
    fixedBy: 'revoke create on database $db from $login',
  },
  {
    code: 'isolation.login-search-path',
    severity: 'warn',
    words: 'role $login has tables in its search path',
    by: 'alter role $login reset search_path',
    fixedBy: 'alter role $login set search_path = pg_catalog',
  },
  {
    code: 'isolation.login-search-path',
    severity: 'warn',
    words: 'role $login has tables in its search path',
    by: 'alter role $login in database $db set search_path = public',
    fixedBy: 'alter role $login in database $db reset search_path',
  },
  {
    code: 'isolation.login-setting',
    words: 'role $login starts every session with role=$scope',
    by: 'alter role $login set role = $scope',
    fixedBy: 'alter role $login reset role',
    also: ['isolation.unscoped-read'],
  },
  {
    code: 'isolation.login-setting',
    words: 'database $db starts every session with app.tenant_id=acme',
    by: "alter database $db set app.tenant_id = 'acme'",
    fixedBy: 'alter database $db reset app.tenant_id',
  },
]

findsFaults(roles)
