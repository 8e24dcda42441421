/** Reads every request and responds with 204; below `/never` it does not respond. */
import { listen } from '../listen.ts'

listen(
  async (incoming, outgoing) => {
    if (incoming.url?.startsWith('/never')) return
    incoming.resume()
    incoming.once('end', () => outgoing.writeHead(204).end())
  },
  async () => undefined,
)
