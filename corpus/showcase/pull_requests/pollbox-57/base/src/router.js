/** A tiny router: "/polls/:id" style patterns, one handler per method and pattern. */
export class Router {
  #routes = [];

  add(method, pattern, handler) {
    this.#routes.push({ method, parts: pattern.split("/"), handler });
  }

  find(method, path) {
    const given = path.split("/");
    for (const route of this.#routes) {
      const params = match(route.parts, given);
      if (params && route.method === method) {
        return { handler: route.handler, params };
      }
    }
    return null;
  }
}

function match(parts, given) {
  if (parts.length !== given.length) {
    return null;
  }
  const params = {};
  for (let i = 0; i < parts.length; i++) {
    if (parts[i].startsWith(":")) {
      params[parts[i].slice(1)] = decodeURIComponent(given[i]);
    } else if (parts[i] !== given[i]) {
      return null;
    }
  }
  return params;
}
