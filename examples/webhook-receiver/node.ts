/** Receives webhooks with node:http: verifies each, stores it once, responds, then processes it. */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { DatabaseSync } from 'node:sqlite'
import { buffer } from 'node:stream/consumers'
import { SignatureInvalid, verifyWebhook } from 'tenantry/webhooks'

const { WEBHOOK_SECRETS = '', WEBHOOK_DATABASE = 'webhooks.db', PORT = '3000' } = process.env
const MOST_BYTES = 1024 * 1024

const db = new DatabaseSync(WEBHOOK_DATABASE)
db.exec('create table if not exists inbox (id text primary key, event text, payload text, done integer default 0)')
const keep = db.prepare('insert into inbox (id, event, payload) values (?, ?, ?) on conflict do nothing')
const waiting = db.prepare('select id, event, payload from inbox where not done order by rowid')
const finish = db.prepare('update inbox set done = 1 where id = ?')

async function statusFor(request: IncomingMessage): Promise<number> {
  if (!(Number(request.headers['content-length']) <= MOST_BYTES)) return 413
  try {
    const body = await buffer(request)
    const { id, event } = verifyWebhook(body, request.headers, WEBHOOK_SECRETS.split(' '))
    keep.run(id, event, body.toString())
    return 204
  } catch (error) {
    if (SignatureInvalid.matches(error)) return 401
    console.error(error)
    return 500
  }
}

/** Processes all stored webhooks; a failed one is retried with the next webhook and after a start. */
function work(): void {
  for (const { id = '', event, payload } of waiting.all()) {
    try {
      console.log(`${event} ${payload}`) // your code
      finish.run(id)
    } catch (error) {
      console.error(error)
    }
  }
}

const server = createServer(async (request, response) => {
  response.writeHead(await statusFor(request)).end()
  setImmediate(work)
})
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  work()
})
process.once('SIGTERM', () => server.close())
