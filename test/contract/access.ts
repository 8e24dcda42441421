/** Contract cases of API tokens, browser sessions, and the stream of changes. */
import { MAX_STREAMS_OF_CALLER } from '../../src/tenancy/activity/activity.ts'
import { TOKENS } from './calls.ts'
import type { Part } from './row.ts'

const withoutTenant = { tenant: 'none' } as const
const created = { ...withoutTenant, given: ['POST /tokens {"name":"{id}","may":["tenants.*"]}'] } as const
const signedIn = { ...withoutTenant, given: [`POST /session {"token":"${TOKENS.admin}"}`] } as const
const FULL = 'every stream of the process is open'
const body = {
  name: '{id}',
  may: ['tenants.*', '!tenants.delete'],
  tenants: ['acme'],
  expiresAt: '2999-01-31T00:00:00Z',
}

export const access: Part = {
  operations: {
    'tokens.list': { success: withoutTenant, wrong: { query: { limit: '0' } } },
    'tokens.create': {
      success: { ...withoutTenant, body },
      wrong: { body: { ...body, may: ['!tenants.delete'] } },
      also: {
        E_TOKEN_EXISTS: { ...created, body },
        E_PATTERN_UNKNOWN: { ...withoutTenant, body: { ...body, may: ['tenants.*', '!tenants.remove'] } },
      },
    },
    'tokens.delete': {
      success: { ...created, params: { tokenId: '{given}' } },
      wrong: { params: { tokenId: 'newest' } },
      also: { E_TOKEN_NOT_FOUND: { ...withoutTenant, params: { tokenId: '00000000-0000-7000-8000-000000000000' } } },
    },
    'sessions.list': { success: signedIn, wrong: { query: { cursor: 'x' } } },
    'sessions.delete': {
      success: { ...signedIn, params: { sessionId: '{given}' } },
      wrong: { params: { sessionId: 'newest' } },
      also: {
        E_SESSION_NOT_FOUND: { ...withoutTenant, params: { sessionId: '00000000-0000-7000-8000-000000000000' } },
      },
    },
    'activity.stream': {
      success: withoutTenant,
      wrong: { query: { limit: '0' } },
      also: {
        E_TOO_MANY_STREAMS: { ...withoutTenant, given: [FULL], headers: { accept: 'text/event-stream' } },
      },
      needsNoDatabase: true,
    },
    'session.get': { success: withoutTenant, wrong: { query: { colour: 'red' } }, needsNoDatabase: true },
  },
  commands: {
    'token:create': {
      ...withoutTenant,
      line: ['{id}', '--may', 'tenants.*', '--may', '!tenants.delete', '--tenants', 'acme'],
    },
    'token:list': { ...created, line: ['--limit', '1'] },
    'token:revoke': { ...created, line: ['{given}'] },
    'session:list': { ...signedIn, line: ['--limit', '1'] },
    'session:end': { ...signedIn, line: ['{given}'] },
    activity: { line: [], isEndless: true, json: { meanwhile: ['PATCH /tenants/{id} {"name":"Globex"}'] } },
  },
  happenings: {
    [FULL]: async ({ api }) => {
      const request = { headers: { 'x-admin-token': TOKENS.admin, accept: 'text/event-stream' } }
      const url = `http://localhost${api.http.prefix}/activity`
      for (let n = 0; n < MAX_STREAMS_OF_CALLER; n++) await api.http.fetch(new Request(url, request))
      return {}
    },
  },
}
