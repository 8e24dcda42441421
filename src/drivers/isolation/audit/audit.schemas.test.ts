/**
 * Tests each rule of `doctor --prove` about tenants' schemas: a fault on a real server is reported with the object's
 * name only.
 */
import { type Fault, useSchemas } from './audit.fixture.ts'

const { findsFaults } = useSchemas()

const schemas: readonly Fault[] = [
  ...[
    ['schema t1_acme', 'alter schema t1_acme owner to'],
    ['table t1_acme.notes', 'alter table t1_acme.notes owner to'],
    ['function t1_acme.count_notes()', 'alter function t1_acme.count_notes() owner to'],
  ].map(([object, alter]) => ({
    code: 'isolation.foreign-owner',
    words: `${object} belongs to $other`,
    by: `${alter} $other`,
    fixedBy: `${alter} current_user`,
    tenantId: 'acme',
  })),
  ...['truncate', 'references', 'trigger'].map((right) => ({
    code: 'isolation.scope-rights',
    words: `table t1_acme.notes gives the scope role the right to ${right}`,
    by: `grant ${right} on t1_acme.notes to $scope`,
    fixedBy: `revoke ${right} on t1_acme.notes from $scope`,
    tenantId: 'acme',
  })),
  {
    code: 'isolation.scope-rights',
    words: 'sequence t1_acme.notes_id_seq gives the scope role the right to update',
    by: 'grant update on sequence t1_acme.notes_id_seq to $scope',
    fixedBy: 'revoke update on sequence t1_acme.notes_id_seq from $scope',
    tenantId: 'acme',
  },
  {
    code: 'isolation.scope-rights',
    words: 'table t1_acme.notes gives the scope role the right to select with grant option',
    by: 'grant select on t1_acme.notes to $scope with grant option',
    fixedBy: 'revoke grant option for select on t1_acme.notes from $scope',
    tenantId: 'acme',
  },
  {
    code: 'isolation.scope-rights',
    words: 'schema t1_acme gives the scope role the right to create',
    by: 'grant create on schema t1_acme to $scope',
    fixedBy: 'revoke create on schema t1_acme from $scope',
    tenantId: 'acme',
  },
  {
    code: 'isolation.scope-rights',
    words: 'new tables of schema t1_acme gives the scope role the right to truncate',
    by: 'alter default privileges in schema t1_acme grant truncate on tables to $scope',
    fixedBy: 'alter default privileges in schema t1_acme revoke truncate on tables from $scope',
    tenantId: 'acme',
  },
  {
    code: 'isolation.public-rights',
    words: 'schema t1_acme gives PUBLIC the right to usage',
    by: 'grant usage on schema t1_acme to public',
    fixedBy: 'revoke usage on schema t1_acme from public',
    tenantId: 'acme',
  },
  {
    code: 'isolation.public-rights',
    words: 'table t1_acme.notes gives PUBLIC the right to select',
    by: 'grant select on t1_acme.notes to public',
    fixedBy: 'revoke select on t1_acme.notes from public',
    tenantId: 'acme',
  },
  ...[
    ['rule _RETURN on view t1_acme.theirs', 'view t1_acme.theirs as select id from t1_globex.notes'],
    [
      'function t1_acme.theirs()',
      'function t1_acme.theirs() returns bigint language sql begin atomic select count(*) from t1_globex.notes; end',
    ],
    [
      'default value for column id of table t1_acme.theirs',
      "table t1_acme.theirs (id int default nextval('t1_globex.notes_id_seq'))",
    ],
    [
      'constraint theirs_id_fkey on table t1_acme.theirs',
      'table t1_acme.theirs (id int references t1_globex.notes (id))',
    ],
    ['table t1_acme.theirs', 'table t1_acme.theirs () inherits (t1_globex.notes)'],
  ].map(([object, definition]) => ({
    code: 'isolation.bound-to-another-tenant',
    words: `${object} refers to another tenant's schema: `,
    by: `create ${definition}`,
    fixedBy: `drop ${definition?.split(' ')[0]} t1_acme.theirs`,
    tenantId: 'acme',
  })),
  {
    code: 'isolation.reads-beyond-tenant',
    severity: 'warn',
    words: 'rule _RETURN on view t1_acme.all_tenants reads table multitenancy.tenants, which belongs to no tenant',
    by: 'create view t1_acme.all_tenants as select id from multitenancy.tenants',
    fixedBy: 'drop view t1_acme.all_tenants',
    tenantId: 'acme',
  },
  {
    code: 'isolation.security-definer',
    severity: 'warn',
    words: 'function t1_acme.count_notes() runs with the rights of',
    by: 'alter function t1_acme.count_notes() security definer',
    fixedBy: 'alter function t1_acme.count_notes() security invoker',
    tenantId: 'acme',
  },
  {
    code: 'isolation.table-in-public',
    severity: 'warn',
    words: 'table public.notes has the name of a tenant table',
    by: 'create table public.notes (owner text)',
    fixedBy: 'drop table public.notes',
  },
  {
    code: 'isolation.unscoped-read',
    words: "table t1_acme.notes is readable by the role $login outside of a tenant's scope",
    by: 'grant usage on schema t1_acme to public; grant select on t1_acme.notes to public',
    fixedBy: 'revoke usage on schema t1_acme from public; revoke select on t1_acme.notes from public',
    also: ['isolation.public-rights'],
  },
]

findsFaults(schemas)
