/** Headers of responses in openapi.json. */
import { expect, test } from 'vitest'
import { catalogueOf, openApiOf } from '../../src/service/catalogue.ts'
import { satellites } from '../../src/service/main.ts'
import { operations as tenantOperations } from '../../src/tenants/operations/tenants.ts'
import { document } from '../contract/document.ts'

const headersOf = (method: string, path: string, status: number) =>
  Object.keys(document.paths[`/admin/multitenancy${path}`][method].responses[status].headers)

test('the response to a creation has Location, Preference-Applied and Idempotency-Replayed', () => {
  expect(headersOf('post', '/tenants', 201)).toEqual([
    'x-request-id',
    'Location',
    'Preference-Applied',
    'Idempotency-Replayed',
  ])
})

test('an action has Preference-Applied for each status', () => {
  for (const status of [200, 202]) {
    expect(headersOf('put', '/tenants/{id}/activate', status)).toEqual(['x-request-id', 'ETag', 'Preference-Applied'])
  }
  expect(headersOf('put', '/tenants/{id}/suspend', 200)).toEqual(['x-request-id', 'ETag'])
})

test('operations that read or change the state of a resource have its ETag', () => {
  expect(headersOf('get', '/tenants/{id}', 200)).toEqual(['x-request-id', 'ETag'])
  expect(headersOf('patch', '/tenants/{id}', 412)).toEqual(['x-request-id', 'ETag'])
  expect(headersOf('delete', '/tenants/{id}/feature-flags/{key}', 204)).toEqual(['x-request-id'])
  expect(headersOf('get', '/tenants', 200)).toEqual(['x-request-id'])
})

test('an error that is stored for an Idempotency-Key has Idempotency-Replayed', () => {
  expect(headersOf('post', '/tenants/{id}/dispatch', 409)).toEqual(['x-request-id', 'Idempotency-Replayed'])
  expect(headersOf('post', '/tenants', 401)).toEqual(['x-request-id'])
  expect(headersOf('patch', '/tenants/{id}', 409)).toEqual(['x-request-id'])
})

test('an error of an unavailable dependency has Retry-After', () => {
  expect(headersOf('get', '/tenants', 503)).toEqual(['x-request-id', 'Retry-After'])
  expect(headersOf('post', '/webhooks', 503)).toEqual(['x-request-id', 'Retry-After'])
})

test('the failure of a job has Location and Preference-Applied', () => {
  const ofJob = ['x-request-id', 'Location', 'Preference-Applied']
  expect(headersOf('post', '/tenants', 409)).toEqual([...ofJob, 'Idempotency-Replayed'])
  expect(headersOf('post', '/tenants', 500)).toEqual(ofJob)
  expect(headersOf('post', '/tenants', 503)).toEqual(['x-request-id', 'Retry-After', ...ofJob.slice(1)])
})

test('headers, parameters and error responses that operations share are components', () => {
  const { paths }: any = openApiOf(catalogueOf(satellites))
  const operations = Object.values<any>(paths).flatMap((path) => Object.values<any>(path))
  const responses = operations.flatMap((operation) => Object.values<any>(operation.responses))
  const inline = [
    ...operations.flatMap(({ parameters = [] }) => parameters),
    ...responses.flatMap(({ headers = {} }) => Object.entries(headers)),
    ...responses.filter((response) => 'x-error-codes' in response),
  ].map((part) => JSON.stringify(part))
  const repeated = inline.filter((part, index) => !part.includes('$ref') && inline.indexOf(part) !== index)
  expect(repeated).toEqual([])
  expect(inline.length).toBeGreaterThan(200)
})

test('the example of a request body is a valid body', () => {
  const operations = satellites.flatMap(({ operations = [] }) => operations).concat(tenantOperations)
  const examples = operations.flatMap(({ name, body }) => {
    const example = body?.meta()?.example
    return example === undefined ? [] : [{ name, isValid: body.safeParse(example).success }]
  })
  expect(examples).toContainEqual({ name: 'tenants.create', isValid: true })
  expect(examples.filter(({ isValid }) => !isValid)).toEqual([])
})
