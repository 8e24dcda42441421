/**
 * What was released, against what there is now: documents and migrations of each release are in test/releases. See CONTRIBUTING.md for
 * how a release is recorded. releases.nightly.test.ts upgrades an installation of each release.
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

/** A change of this number says that something breaks. */
const breakingNumber = (version: string): string => (/^0\.\d+/.exec(version) ?? /^\d+/.exec(version))?.[0] ?? ''

test('openapi.json breaks nobody who calls the last release, unless the version says so', () => {
  const now: Document = JSON.parse(readFileSync(join(import.meta.dirname, '../openapi.json'), 'utf8'))
  const mayBreak = breakingNumber(VERSION) !== breakingNumber(lastRelease)
  const found = breaking(readRecorded(lastRelease, 'openapi.json'), now)
  expect(mayBreak ? [] : found).toEqual([])
})

describe('what breaks', () => {
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
    ['another name', (one) => (one.operationId = 'parcels.post')],
    ['a parameter that is gone', (one) => (one.parameters = [])],
    [
      'a parameter that is asked for',
      (one) => one.parameters.push({ name: 'a', in: 'query', required: true, schema: {} }),
    ],
    ['a bound that is tighter', (one) => (one.parameters[0].schema.maximum = 100)],
    ['a bound that is new', (one) => (body(one).properties.to.minLength = 1)],
    ['a pattern', (one) => (body(one).properties.to.pattern = 'a')],
    ['a member that is asked for', (one) => body(one).required.push('how')],
    ['a member that is not taken', (one) => delete body(one).properties.how],
    ['a value that is not taken', (one) => (body(one).properties.how.enum = ['air'])],
    ['another type that is taken', (one) => (body(one).properties.to.type = 'number')],
    ['null that is not taken', (one) => body(one).properties.weight.anyOf.pop()],
    ['no body', (one) => delete one.requestBody],
    ['another status', (one) => renamed(one.responses, '200', '202')],
    ['an error that is never answered', (one) => delete one.responses['404']],
    ['a code that only words name', (one) => (one.responses['404'].description = '`E_NOT_FOUND`')],
    ['a code of an error', (one) => one.responses['409']['x-error-codes'].pop()],
    ['another name of a code', (one) => (one.responses['409']['x-error-codes'][0] = 'E_PARCEL_GONE')],
    ['a header of an answer that is gone', (one) => delete one.responses['200'].headers.Location],
    ['another type of a header', (one) => (one.responses['200'].headers['Retry-After'].schema.type = 'string')],
    ['another format that is taken', (one) => (body(one).properties.due.format = 'date')],
    ['a format that is new', (one) => (body(one).properties.to.format = 'email')],
    ['another format that is answered', (one) => (schemaOf(one).properties.sentAt.format = 'date')],
    ['a format of an answer that is gone', (one) => delete schemaOf(one).properties.sentAt.format],
    ['another type of further members', (one) => (body(one).properties.labels.additionalProperties.type = 'number')],
    ['a bound of further members', (one) => (body(one).properties.labels.additionalProperties.maxLength = 10)],
    ['further members of one type', (one) => (body(one).properties.notes.additionalProperties = { type: 'string' })],
    ['no further members', (one) => (body(one).properties.labels.additionalProperties = false)],
    ['no further members where all were taken', (one) => (body(one).properties.notes.additionalProperties = false)],
    ['names of further members', (one) => (body(one).properties.notes.propertyNames.pattern = 'a')],
    ['so many further members', (one) => (body(one).properties.labels.maxProperties = 5)],
    ['further members that are asked for', (one) => (body(one).properties.labels.minProperties = 1)],
    [
      'another type of answered members',
      (one) => (schemaOf(one).properties.labels.additionalProperties.type = 'number'),
    ],
    ['answered members of any type', (one) => (schemaOf(one).properties.labels.additionalProperties = {})],
    ['no further answered members', (one) => (schemaOf(one).properties.labels.additionalProperties = false)],
    ['another default', (one) => (body(one).properties.how.default = 'air')],
    ['a default that is gone', (one) => delete body(one).properties.how.default],
    ['another default of alternatives', (one) => (body(one).properties.weight.default = 1)],
    ['another header for the token', (_, schemes) => (schemes.token.name = 'authorization')],
    ['another place for the token', (_, schemes) => (schemes.token.in = 'query')],
    ['another scheme', (one) => (one.security = [{ password: [] }])],
    ['one more scheme', (one) => (one.security = [{ token: [], password: [] }])],
    ['a member of the answer that is gone', (one) => delete schemaOf(one).properties.note],
    ['one that is not always there', (one) => (schemaOf(one).required = ['id'])],
    ['another type that is answered', (one) => (schemaOf(one).properties.id.type = 'number')],
    ['null that is answered', (one) => (schemaOf(one).properties.id.type = ['string', 'null'])],
  ])('%s', (_, change) => expect(broken(change)).toHaveLength(1))

  test('an operation that is gone', () => {
    expect(breaking(before, { paths: {} })).toEqual(['POST /parcels is gone'])
  })

  test.each<[string, Change]>([
    ['nothing', () => undefined],
    ['words', (one) => (one.summary = 'other words')],
    ['an optional parameter', (one) => one.parameters.push({ name: 'a', in: 'query', schema: {} })],
    ['an optional member', (one) => (body(one).properties.note = { type: 'string' })],
    ['a wider bound', (one) => (one.parameters[0].schema.maximum = 500)],
    ['a further value that is taken', (one) => body(one).properties.how.enum.push('land')],
    ['a wider type', (one) => (one.parameters[0].schema.type = 'number')],
    ['a further member of the answer', (one) => (schemaOf(one).properties.more = { type: 'string' })],
    ['a further value that is answered', (one) => schemaOf(one).properties.state.enum.push('lost')],
    ['an answer that is never null', (one) => (schemaOf(one).properties.note.type = 'string')],
    ['another error', (one) => (one.responses['422'] = {})],
    ['another code', (one) => one.responses['409']['x-error-codes'].push('E_PARCEL_GONE')],
    ['a list of the codes that words name', (one) => (one.responses['404']['x-error-codes'] = codesOf404)],
    ['a further header', (one) => (one.responses['200'].headers.ETag = { schema: { type: 'string' } })],
    ['a format that is asked for no more', (one) => delete body(one).properties.due.format],
    ['a format of an answer', (one) => (schemaOf(one).properties.id.format = 'uuid')],
    ['further members of any type', (one) => (body(one).properties.labels.additionalProperties = {})],
    ['further members where none were taken', (one) => (body(one).additionalProperties = true)],
    ['a default where none was told', (one) => (body(one).properties.to.default = 'here')],
    ['another way in', (one) => (one.security = [{ password: [] }, { token: [] }])],
    ['no token', (one) => (one.security = [])],
  ])('%s does not', (_, change) => expect(broken(change)).toEqual([]))
})

describe.each(releases)('the schema of %s', (release) => {
  const released: Record<string, Record<string, string>> = readRecorded(release, 'migrations.json')

  test('was not edited since, nor put into another order', () => {
    const now = checksumsOf(tables)
    for (const [part, migrations] of Object.entries(released)) {
      const names = Object.keys(migrations)
      expect(Object.entries(now[part] ?? {}).slice(0, names.length), part).toEqual(Object.entries(migrations))
    }
  })
})
