/**
 * Compares recorded releases in test/releases with the present documents and migrations. CONTRIBUTING.md describes how
 * to record a release; releases.nightly.test.ts upgrades an installation of each.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { catalogueOf } from '../src/service/catalogue.ts'
import { satellites } from '../src/service/main.ts'
import { VERSION } from '../src/tenancy/version.ts'
import { breaking, type Document } from './releases/breaking.ts'
import { checksumsOf } from './releases/checksums.ts'
import { lastRelease, readRecorded, releases } from './releases/recorded.ts'

const { tables } = catalogueOf(satellites)

/** Part of the version whose change permits breaking changes. */
const breakingNumber = (version: string): string => (/^0\.\d+/.exec(version) ?? /^\d+/.exec(version))?.[0] ?? ''

test('openapi.json has no breaking change since the last release, unless the version permits it', () => {
  const now: Document = JSON.parse(readFileSync(join(import.meta.dirname, '../openapi.json'), 'utf8'))
  const mayBreak = breakingNumber(VERSION) !== breakingNumber(lastRelease)
  const found = breaking(readRecorded(lastRelease, 'openapi.json'), now)
  expect(mayBreak ? [] : found).toEqual([])
})

describe('detection of breaking changes', () => {
  type Change = (operation: any, schemes: any) => void
  const document = (change: Change): Document => {
    const operation = {
      operationId: 'parcels.send',
      parameters: [{ name: 'limit', in: 'query', schema: { type: 'integer', maximum: 200 } }],
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              type: 'object',
              additionalProperties: false,
              required: ['to'],
              properties: {
                to: { type: 'string', maxLength: 100 },
                how: { enum: ['air', 'sea'], default: 'sea' },
                weight: { anyOf: [{ type: 'number' }, { type: 'null' }], default: null },
                due: { type: 'string', format: 'date-time' },
                labels: { type: 'object', additionalProperties: { type: 'string', maxLength: 20 } },
                notes: { type: 'object', propertyNames: { type: 'string' } },
              },
            },
          },
        },
      },
      responses: {
        '200': {
          content: {
            'application/json': {
              schema: {
                type: 'object',
                required: ['id', 'state'],
                properties: {
                  id: { type: 'string' },
                  state: { enum: ['sent'] },
                  note: { type: ['string', 'null'] },
                  sentAt: { type: 'string', format: 'date-time' },
                  labels: { type: 'object', additionalProperties: { type: 'string' } },
                },
              },
            },
          },
          headers: { Location: { schema: { type: 'string' } }, 'Retry-After': { schema: { type: 'integer' } } },
        },
        '404': { description: '`E_PARCEL_NOT_FOUND`, `E_NOT_FOUND`' },
        '409': { description: 'Refused', 'x-error-codes': ['E_PARCEL_SENT', 'E_PARCEL_STATE'] },
      },
    }
    const schemes = { token: { type: 'apiKey', in: 'header', name: 'x-token' } }
    change(operation, schemes)
    return structuredClone({
      security: [{ token: [] }],
      paths: { '/parcels': { post: operation } },
      components: { securitySchemes: schemes },
    }) as unknown as Document
  }
  const body = (operation: any) => operation.requestBody.content['application/json'].schema
  const schemaOf = (operation: any) => operation.responses['200'].content['application/json'].schema
  const codesOf404 = ['E_NOT_FOUND', 'E_PARCEL_NOT_FOUND']
  const renamed = (all: any, was: string, is: string) => {
    all[is] = all[was]
    delete all[was]
  }
  const before = document(() => undefined)
  const broken = (change: Change) => breaking(before, document(change))

  test.each<[string, Change]>([
    ['another operation id', (one) => (one.operationId = 'parcels.post')],
    ['a removed parameter', (one) => (one.parameters = [])],
    ['a new required parameter', (one) => one.parameters.push({ name: 'a', in: 'query', required: true, schema: {} })],
    ['a tighter bound', (one) => (one.parameters[0].schema.maximum = 100)],
    ['a new bound', (one) => (body(one).properties.to.minLength = 1)],
    ['a pattern', (one) => (body(one).properties.to.pattern = 'a')],
    ['a new required member', (one) => body(one).required.push('how')],
    ['a removed request member', (one) => delete body(one).properties.how],
    ['a removed request value', (one) => (body(one).properties.how.enum = ['air'])],
    ['another request type', (one) => (body(one).properties.to.type = 'number')],
    ['null no longer accepted', (one) => body(one).properties.weight.anyOf.pop()],
    ['a removed body', (one) => delete one.requestBody],
    ['another status', (one) => renamed(one.responses, '200', '202')],
    ['a removed error', (one) => delete one.responses['404']],
    ['a code only in the description', (one) => (one.responses['404'].description = '`E_NOT_FOUND`')],
    ['a removed error code', (one) => one.responses['409']['x-error-codes'].pop()],
    ['a renamed error code', (one) => (one.responses['409']['x-error-codes'][0] = 'E_PARCEL_GONE')],
    ['a removed response header', (one) => delete one.responses['200'].headers.Location],
    ['another type of a header', (one) => (one.responses['200'].headers['Retry-After'].schema.type = 'string')],
    ['another request format', (one) => (body(one).properties.due.format = 'date')],
    ['a new request format', (one) => (body(one).properties.to.format = 'email')],
    ['another response format', (one) => (schemaOf(one).properties.sentAt.format = 'date')],
    ['a removed response format', (one) => delete schemaOf(one).properties.sentAt.format],
    ['another type of additional members', (one) => (body(one).properties.labels.additionalProperties.type = 'number')],
    ['a bound of additional members', (one) => (body(one).properties.labels.additionalProperties.maxLength = 10)],
    ['one type of additional members', (one) => (body(one).properties.notes.additionalProperties = { type: 'string' })],
    ['additional members no longer accepted', (one) => (body(one).properties.labels.additionalProperties = false)],
    [
      'additional members of any type no longer accepted',
      (one) => (body(one).properties.notes.additionalProperties = false),
    ],
    ['a pattern for names of additional members', (one) => (body(one).properties.notes.propertyNames.pattern = 'a')],
    ['a maximum of additional members', (one) => (body(one).properties.labels.maxProperties = 5)],
    ['a minimum of additional members', (one) => (body(one).properties.labels.minProperties = 1)],
    [
      'another type of additional response members',
      (one) => (schemaOf(one).properties.labels.additionalProperties.type = 'number'),
    ],
    ['additional response members of any type', (one) => (schemaOf(one).properties.labels.additionalProperties = {})],
    ['removed additional response members', (one) => (schemaOf(one).properties.labels.additionalProperties = false)],
    ['another default', (one) => (body(one).properties.how.default = 'air')],
    ['a removed default', (one) => delete body(one).properties.how.default],
    ['another default of alternatives', (one) => (body(one).properties.weight.default = 1)],
    ['another header for the token', (_, schemes) => (schemes.token.name = 'authorization')],
    ['another location of the token', (_, schemes) => (schemes.token.in = 'query')],
    ['another security scheme', (one) => (one.security = [{ password: [] }])],
    ['an additional required security scheme', (one) => (one.security = [{ token: [], password: [] }])],
    ['a removed response member', (one) => delete schemaOf(one).properties.note],
    ['a response member that becomes optional', (one) => (schemaOf(one).required = ['id'])],
    ['another response type', (one) => (schemaOf(one).properties.id.type = 'number')],
    ['a response that may be null', (one) => (schemaOf(one).properties.id.type = ['string', 'null'])],
  ])('%s is a breaking change', (_, change) => expect(broken(change)).toHaveLength(1))

  test('a removed operation is a breaking change', () => {
    expect(breaking(before, { paths: {} })).toEqual(['POST /parcels is gone'])
  })

  test.each<[string, Change]>([
    ['no change', () => undefined],
    ['another summary', (one) => (one.summary = 'other words')],
    ['an optional parameter', (one) => one.parameters.push({ name: 'a', in: 'query', schema: {} })],
    ['an optional member', (one) => (body(one).properties.note = { type: 'string' })],
    ['a wider bound', (one) => (one.parameters[0].schema.maximum = 500)],
    ['an additional request value', (one) => body(one).properties.how.enum.push('land')],
    ['a wider type', (one) => (one.parameters[0].schema.type = 'number')],
    ['an additional response member', (one) => (schemaOf(one).properties.more = { type: 'string' })],
    ['an additional response value', (one) => schemaOf(one).properties.state.enum.push('lost')],
    ['a response that is never null', (one) => (schemaOf(one).properties.note.type = 'string')],
    ['an additional error', (one) => (one.responses['422'] = {})],
    ['an additional error code', (one) => one.responses['409']['x-error-codes'].push('E_PARCEL_GONE')],
    ['codes listed in addition to the description', (one) => (one.responses['404']['x-error-codes'] = codesOf404)],
    ['an additional header', (one) => (one.responses['200'].headers.ETag = { schema: { type: 'string' } })],
    ['a removed request format', (one) => delete body(one).properties.due.format],
    ['a new response format', (one) => (schemaOf(one).properties.id.format = 'uuid')],
    ['additional members of any type', (one) => (body(one).properties.labels.additionalProperties = {})],
    ['additional members where none were accepted', (one) => (body(one).additionalProperties = true)],
    ['a default where there was none', (one) => (body(one).properties.to.default = 'here')],
    ['an alternative security scheme', (one) => (one.security = [{ password: [] }, { token: [] }])],
    ['a removed token requirement', (one) => (one.security = [])],
  ])('%s is no breaking change', (_, change) => expect(broken(change)).toEqual([]))
})

describe.each(releases)('schema of %s', (release) => {
  const released: Record<string, Record<string, string>> = readRecorded(release, 'migrations.json')

  test('migrations of the release are unchanged and in the same order', () => {
    const now = checksumsOf(tables)
    for (const [part, migrations] of Object.entries(released)) {
      const names = Object.keys(migrations)
      expect(Object.entries(now[part] ?? {}).slice(0, names.length), part).toEqual(Object.entries(migrations))
    }
  })
})
