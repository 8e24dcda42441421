/** Contract cases of this satellite for coverage.test.ts, with these settings defined. */
import { z } from 'zod'
import type { Part } from '../../../test/contract/row.ts'
import { type SettingsOptions, secret, settings } from './index.ts'

const options: SettingsOptions<Record<string, any>> = {
  define: { 'mail.from': z.email(), 'mail.password': secret(z.string()), 'upload.mb': z.int().default(10) },
}

const absent = { tenant: 'none' } as const
const deleted = { given: ['DELETE /tenants/{id}'] } as const
const megabytes = { params: { name: 'upload.mb' } } as const
const unknown = { params: { name: 'unknown' } } as const
const wrong = { params: { name: 'no name!' } } as const
const password = { params: { name: 'mail.password' } } as const

export const part: Part = {
  configured: async () => ({ satellite: settings(options), end: async () => undefined }),
  happenings: {
    /** The secret is encrypted with an application key that is not configured. */
    'a setting without its key': async ({ api }, { id = '' }) => {
      await api.tenancy.kernel.database.sql(
        `insert into multitenancy.settings (tenant_id, name, secret, updated_at) values ($1, 'mail.password', 'v1.x', now())`,
        [id],
      )
      return {}
    },
  },
  operations: {
    'settings.list': { success: {}, wrong: { params: { id: 'No Id' } }, also: { E_TENANT_NOT_FOUND: absent } },
    'settings.get': {
      success: megabytes,
      wrong,
      also: { E_TENANT_NOT_FOUND: { ...absent, ...megabytes }, E_SETTING_NOT_FOUND: unknown },
    },
    'settings.set': {
      success: { ...megabytes, body: { value: 20 } },
      wrong: { ...megabytes, body: { value: 'many' } },
      also: {
        E_TENANT_NOT_FOUND: { ...absent, ...megabytes, body: { value: 20 } },
        E_TENANT_STATE: { ...deleted, ...megabytes, body: { value: 20 } },
        E_SETTING_NOT_FOUND: { ...unknown, body: { value: 20 } },
      },
    },
    'settings.delete': {
      success: { ...megabytes, given: ['PUT /tenants/{id}/settings/upload.mb {"value":20}'] },
      wrong,
      also: {
        E_TENANT_NOT_FOUND: { ...absent, ...megabytes },
        E_TENANT_STATE: { ...deleted, ...megabytes },
        E_SETTING_NOT_FOUND: unknown,
      },
    },
    'settings.reveal': {
      success: password,
      wrong,
      also: {
        E_TENANT_NOT_FOUND: { ...absent, ...password },
        E_SETTING_NOT_FOUND: unknown,
        E_SETTING_UNUSABLE: { ...password, given: ['a setting without its key'] },
      },
    },
  },
  commands: {
    'tenant:settings:list': { line: ['{id}'] },
    'tenant:settings:show': { line: ['{id}', 'upload.mb'] },
    'tenant:settings:set': { line: ['{id}', 'mail.from', 'info@acme.example'] },
    'tenant:settings:delete': {
      line: ['{id}', 'upload.mb'],
      given: ['PUT /tenants/{id}/settings/upload.mb {"value":20}'],
    },
    'tenant:settings:reveal': {
      line: ['{id}', 'mail.password'],
      given: ['PUT /tenants/{id}/settings/mail.password {"value":"hunter2"}'],
    },
  },
}
