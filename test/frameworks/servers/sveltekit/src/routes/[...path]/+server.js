/** Every path of the application, as a route of SvelteKit. */
import { handle } from '../../../tenancy.js'

const route = (event) => handle(event.request)

export { route as GET, route as PATCH, route as POST }
