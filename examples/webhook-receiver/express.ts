/** Receives webhooks on Express: `express.raw` for this route, before any `express.json()`. */
import type { AddressInfo } from 'node:net'
import express from 'express'
import { SignatureInvalid, verifyWebhook } from 'tenantry/webhooks'

const { WEBHOOK_SECRETS = '', PORT = '3000' } = process.env
const seen = new Set<string>() // in production: a durable table that all processes share, with the id as its key

const app = express()
app.post('/webhooks', express.raw({ type: () => true, limit: '1mb' }), (request, response) => {
  try {
    const { id, event, payload } = verifyWebhook(request.body ?? '', request.headers, WEBHOOK_SECRETS.split(' '))
    if (!seen.has(id)) console.log(`${event} ${JSON.stringify(payload)}`) // in production: insert into the table
    seen.add(id)
    response.status(204).end()
  } catch (error) {
    if (!SignatureInvalid.matches(error)) throw error
    response.status(401).json({ error: error.message })
  }
})

const server = app.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', () => server.close())
