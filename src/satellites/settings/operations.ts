import { z } from 'zod'
import { jsonOrText } from '../../kernel/api/option-values.ts'
import { part } from '../../kernel/part.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import { SettingName } from './definitions.ts'
import { SettingNotFound, SettingUnusable } from './errors.ts'
import { Setting, type Settings } from './settings.ts'

const { operation, resource } = part<Settings<any>>()

const byName = z.object({ id: TenantId, name: SettingName })
const tenant = { id: 'id of the tenant' }
const setting = { ...tenant, name: 'name of the setting' }
const state = {
  path: '/tenants/{id}/settings/{name}',
  params: byName,
  resource: resource({
    state: Setting,
    lock: (settings, { id, name }: z.output<typeof byName>) => settings.lock(id, name),
  }),
} as const

export const operations = [
  operation({
    name: 'settings.list',
    method: 'GET',
    path: '/tenants/{id}/settings',
    summary: "List a tenant's settings, by name, without secrets",
    params: z.object({ id: TenantId }),
    reply: z.object({ data: z.array(Setting) }),
    errors: [TenantNotFound],
    command: { name: 'tenant:settings:list', arguments: tenant },
    handle: async (settings, { params }) => ({ data: await settings.list(params.id) }),
  }),
  operation({
    name: 'settings.get',
    method: 'GET',
    ...state,
    summary: "Read a tenant's setting: the value of the tenant, of its plan, or the default",
    reply: Setting,
    errors: [TenantNotFound, SettingNotFound],
    scope: 'runtime',
    command: { name: 'tenant:settings:show', arguments: setting },
    handle: (settings, { params: { id, name } }) => settings.describe(id, name),
  }),
  operation({
    name: 'settings.set',
    method: 'PUT',
    ...state,
    summary: "Set a tenant's setting",
    body: z.strictObject({ value: z.unknown().meta({ description: 'Must match the definition of the setting' }) }),
    reply: Setting,
    errors: [TenantNotFound, TenantState, SettingNotFound],
    command: {
      name: 'tenant:settings:set',
      arguments: { ...setting, value: { summary: 'JSON; other text is a string', isSecret: true } },
      body: ({ value }) => ({ value: jsonOrText(value) }),
    },
    handle: (settings, { params: { id, name }, body: { value } }) => settings.set(id, name, value),
  }),
  operation({
    name: 'settings.delete',
    method: 'DELETE',
    ...state,
    summary: "Delete a tenant's value of a setting; that of its plan or the default applies",
    reply: z.void(),
    errors: [TenantNotFound, TenantState, SettingNotFound],
    command: { name: 'tenant:settings:delete', arguments: setting },
    handle: (settings, { params: { id, name } }) => settings.delete(id, name),
  }),
  operation({
    name: 'settings.reveal',
    method: 'POST',
    params: byName,
    path: '/tenants/{id}/settings/{name}/reveal',
    summary: "Read a tenant's setting with the value of a secret; each call is an audit entry",
    body: z.strictObject({}),
    bodyOptional: true,
    reply: z
      .object({ name: z.string(), isSet: z.boolean(), value: z.unknown().optional() })
      .meta({ id: 'RevealedSetting' }),
    shownOnce: ['value'],
    errors: [TenantNotFound, SettingNotFound, SettingUnusable],
    scope: 'reveal',
    command: { name: 'tenant:settings:reveal', arguments: setting },
    handle: (settings, { params: { id, name } }) => settings.reveal(id, name),
  }),
]
