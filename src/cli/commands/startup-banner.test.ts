/** Tests the example request in the message of a service that is ready. */
import { expect, test } from 'vitest'
import { loadConfig } from '../../service/config.ts'
import { readyText } from './startup-banner.ts'

const TOKEN = 'a-token-for-the-tests'

test.each<[string, { inEnvironment?: string; inFile?: string; madeToken?: string }, string]>([
  ['a generated token', { madeToken: TOKEN }, TOKEN],
  ['a token of the environment', { inEnvironment: TOKEN }, '$TENANTRY_ADMIN_TOKEN'],
  ['a token of the configuration file', { inFile: TOKEN }, '<your admin token>'],
])(
  'the example request with %s contains the token, its variable or a placeholder',
  async (_, { inEnvironment, inFile, madeToken }, shown) => {
    const env = { TENANTRY_ADMIN_TOKEN: inEnvironment }
    const config = {
      ...(await loadConfig({ directory: import.meta.dirname, env })),
      ...(inFile ? { adminTokens: [{ name: 'ops', token: inFile }] } : {}),
    }
    const text = readyText({ config, env, url: 'http://127.0.0.1:1', signInLink: '/console', madeToken })
    expect(text).toContain(`Try: curl -H "x-admin-token: ${shown}" http://127.0.0.1:1/admin/multitenancy/tenants\n`)
  },
)
