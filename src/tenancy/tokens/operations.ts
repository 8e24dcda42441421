/** Operations of API tokens and browser sessions. */
import { z } from 'zod'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { part } from '../../kernel/part.ts'
import { Forbidden, PatternUnknown, SessionNotFound, TokenExists, TokenNotFound } from './errors.ts'
import { BrowserSession, NewToken, Token, TokenWithSecret } from './resource.ts'
import type { Sessions } from './sessions.ts'
import type { Tokens } from './tokens.ts'

const ofTokens = part<Tokens>()
const ofSessions = part<Sessions>()

const byToken = z.object({ tokenId: z.uuid().meta({ description: 'Identifier of a token' }) })
const bySession = z.object({ sessionId: z.uuid().meta({ description: 'Identifier of a browser session' }) })

export const tokenOperations = [
  ofTokens.operation({
    name: 'tokens.list',
    method: 'GET',
    path: '/tokens',
    summary: 'List API tokens, the newest first, without their secrets',
    description: 'Tokens of the configuration are not listed.',
    query: z.strictObject(Page.shape),
    reply: pageOf(Token),
    command: {
      name: 'token:list',
      rows: ({ data }) =>
        data.map(({ id, name, may, tenants, creator, expiresAt, lastUsedAt }) => ({
          id,
          name,
          may: may.join(' '),
          tenants: tenants?.join(' ') ?? null,
          creator: creator.name,
          expiresAt,
          lastUsedAt,
        })),
    },
    handle: (tokens, { query }) => tokens.list(query),
  }),
  ofTokens.operation({
    name: 'tokens.create',
    method: 'POST',
    path: '/tokens',
    summary: 'Create an API token',
    description:
      'The token is returned once. It permits at most what the token of the request permits: operations, tenants and end. A pattern that ' +
      'matches no operation is rejected.',
    body: NewToken,
    reply: TokenWithSecret.partial({ token: true }),
    shownOnce: ['token'],
    status: 201,
    errors: [TokenExists, PatternUnknown, Forbidden],
    command: {
      name: 'token:create',
      summary: 'Create an API token; prints it, this once',
      arguments: { name: 'name in the audit log; unique' },
      options: {
        may: "permitted operations: names, prefixes with *, admin, read, runtime, reveal, erase; '!tenants.delete' denies",
        tenants: 'limit to this tenant',
        expiresAt: 'end of the token, such as 2027-01-31T00:00:00Z; default: none',
      },
    },
    handle: (tokens, { body }) => tokens.create(body),
  }),
  ofTokens.operation({
    name: 'tokens.delete',
    method: 'DELETE',
    path: '/tokens/{tokenId}',
    summary: 'Revoke an API token',
    description: 'Ends its sessions. Every process rejects it within a second.',
    params: byToken,
    reply: z.void(),
    errors: [TokenNotFound],
    command: {
      name: 'token:revoke',
      summary: 'Revoke an API token, and end its sessions',
      arguments: { tokenId: 'id of the token' },
      record: (_, { params: { tokenId } }) => ({ id: tokenId, revoked: true }),
    },
    handle: (tokens, { params }) => tokens.delete(params.tokenId),
  }),
]

export const sessionOperations = [
  ofSessions.operation({
    name: 'sessions.list',
    method: 'GET',
    path: '/sessions',
    summary: 'List browser sessions that have not ended, the newest first',
    query: z.strictObject(Page.shape),
    reply: pageOf(BrowserSession),
    command: { name: 'session:list' },
    handle: (sessions, { query }) => sessions.list(query),
  }),
  ofSessions.operation({
    name: 'sessions.delete',
    method: 'DELETE',
    path: '/sessions/{sessionId}',
    summary: 'End a browser session',
    description: 'Every process rejects its cookie within a second.',
    params: bySession,
    reply: z.void(),
    errors: [SessionNotFound],
    command: {
      name: 'session:end',
      arguments: { sessionId: 'id of the session' },
      record: (_, { params: { sessionId } }) => ({ id: sessionId, ended: true }),
    },
    handle: (sessions, { params }) => sessions.delete(params.sessionId),
  }),
]
