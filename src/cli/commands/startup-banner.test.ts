/** The example that a service prints when it is ready can be typed as it is, or says what is missing. */
import { expect, test } from 'vitest'
import { loadConfig } from '../../service/config.ts'
import { readyText } from './startup-banner.ts'

const TOKEN = 'a-token-for-the-tests'

test.each<[string, { inEnvironment?: string; inFile?: string; madeToken?: string }, string]>([
  ['made here', { madeToken: TOKEN }, TOKEN],
  ['of the environment', { inEnvironment: TOKEN }, '$TENANTRY_ADMIN_TOKEN'],
  ['of the file', { inFile: TOKEN }, '<a token of yours>'],
])('with a token %s', async (_, { inEnvironment, inFile, madeToken }, shown) => {
  const env = { TENANTRY_ADMIN_TOKEN: inEnvironment }
  const config = {
    ...(await loadConfig({ directory: import.meta.dirname, env })),
    ...(inFile ? { adminTokens: [{ name: 'ops', token: inFile }] } : {}),
  }
  const text = readyText({ config, env, url: 'http://127.0.0.1:1', signInLink: '/sign-in', madeToken })
  expect(text).toContain(`Try: curl -H "x-admin-token: ${shown}" http://127.0.0.1:1/admin/multitenancy/tenants\n`)
})
