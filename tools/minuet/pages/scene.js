"use strict";
// Has a canvas that shows points as discs and voxels as boxes, and a camera that orbits a target. The canvas is drawn
// only after a change.

const pointVertex = `#version 300 es
in float x, y, z;
in vec3 colour;
uniform mat4 transform;
uniform vec3 scale, edge;
uniform float diameter, least;
out vec3 shade;
void main() {
  gl_Position = transform * vec4(vec3(x, y, z) * scale + 0.5 * edge, 1.0);
  gl_PointSize = clamp(diameter / gl_Position.w, least, 48.0);
  shade = colour;
}`;

const pointFragment = `#version 300 es
precision mediump float;
in vec3 shade;
uniform bool hollow;
out vec4 colour;
void main() {
  vec2 away = gl_PointCoord - 0.5;
  if (dot(away, away) > 0.25 || (hollow && dot(away, away) < 0.12)) discard;
  colour = vec4(shade, 1.0);
}`;

// An instance is a box. At most three of its faces are visible, so it has 18 corners of 6 triangles.
const boxVertex = `#version 300 es
in float x, y, z;
in vec3 colour;
uniform mat4 transform;
uniform vec3 eye, scale, edge;
out vec3 shade;
out vec2 place;
const vec2 corners[6] = vec2[](vec2(0), vec2(1, 0), vec2(1), vec2(0), vec2(1), vec2(0, 1));
const float lights[3] = float[](0.80, 0.66, 1.0);
void main() {
  vec3 low = vec3(x, y, z) * scale;
  vec3 near = step(low + 0.5 * edge, eye);
  int axis = gl_VertexID / 6;
  vec3 corner = near;
  place = corners[gl_VertexID % 6];
  corner[(axis + 1) % 3] = place.x;
  corner[(axis + 2) % 3] = place.y;
  gl_Position = transform * vec4(low + corner * edge, 1.0);
  shade = colour * lights[axis];
}`;

const boxFragment = `#version 300 es
precision mediump float;
in vec3 shade;
in vec2 place;
uniform bool hollow;
out vec4 colour;
void main() {
  vec2 width = fwidth(place);
  vec2 inside = min(place, 1.0 - place) / width;  // This is the distance to the nearest edge in pixels.
  float edge = min(inside.x, inside.y);
  if (hollow && edge > 1.0) discard;
  bool fine = hollow || max(width.x, width.y) > 0.2;  // Such a face is too small to show edges.
  colour = vec4(fine ? shade : shade * mix(0.72, 1.0, smoothstep(0.3, 1.3, edge)), 1.0);
}`;

class Camera {
  constructor() {
    Object.assign(this, {target: [0, 0, 0], distance: 1, yaw: -0.9, pitch: 0.6, field: 0.8});
  }

  /** Returns the direction from the target to the eye, and the axes of the picture. */
  axes() {
    const [sy, cy, sp, cp] = [Math.sin(this.yaw), Math.cos(this.yaw), Math.sin(this.pitch), Math.cos(this.pitch)];
    return {back: [cp * cy, cp * sy, sp], right: [-sy, cy, 0], up: [-sp * cy, -sp * sy, cp]};
  }

  eye() {
    return this.target.map((place, i) => place + this.distance * this.axes().back[i]);
  }

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.min(Math.max(this.pitch + pitch, -1.55), 1.55);
  }

  /** Moves the target. The arguments are fractions of the picture's height. */
  move(right, up) {
    const axes = this.axes(), reach = 2 * this.distance * Math.tan(this.field / 2);
    this.target = this.target.map((place, i) => place - reach * (right * axes.right[i] + up * axes.up[i]));
  }

  zoom(factor) {
    this.distance = Math.min(Math.max(this.distance * factor, 1e-4 * this.reach), 20 * this.reach);
  }

  /** Shows everything within `radius` of `middle`. */
  fit(middle, radius) {
    Object.assign(this, {target: [...middle], reach: radius, distance: 0.75 * radius / Math.sin(this.field / 2)});
  }

  /** Returns the matrix from metres to clip coordinates, in column-major order. */
  matrix(aspect) {
    const {right, up, back} = this.axes(), eye = this.eye();
    const dot = (a) => a[0] * eye[0] + a[1] * eye[1] + a[2] * eye[2];
    const focal = 1 / Math.tan(this.field / 2), near = 0.004 * this.distance, far = this.distance + 6 * this.reach;
    const depth = (far + near) / (near - far), shift = 2 * far * near / (near - far);
    const rows = [
      [...right, -dot(right)].map((v) => v * focal / aspect),
      [...up, -dot(up)].map((v) => v * focal),
      [...back, -dot(back)].map((v) => v * depth),
      [...back, -dot(back)].map((v) => -v),
    ];
    rows[2][3] += shift;
    return new Float32Array([0, 1, 2, 3].flatMap((column) => rows.map((row) => row[column])));
  }
}

class Scene {
  constructor(canvas) {
    this.canvas = canvas;
    this.camera = new Camera();
    this.bodies = [];
    this.frames = this.begun = this.changed = 0;
    this.magnify = 1;
    this.milliseconds = 0;  // The last picture took this time.
    const gl = this.gl = canvas.getContext("webgl2", {antialias: true});
    if (!gl) throw new Error("This browser has no WebGL 2, which shows the cloud.");
    this.programs = {points: this.program(pointVertex, pointFragment), boxes: this.program(boxVertex, boxFragment)};
    gl.enable(gl.DEPTH_TEST);
    new ResizeObserver(() => this.change()).observe(canvas);
  }

  program(vertex, fragment) {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    // Attributes have the same locations in both programs, so a body's buffers work with both.
    ["x", "y", "z", "colour"].forEach((name, place) => gl.bindAttribLocation(program, place, name));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    const of = (name) => gl.getUniformLocation(program, name);
    const uniforms = {};
    for (const name of ["transform", "scale", "diameter", "least", "eye", "edge", "hollow"]) uniforms[name] = of(name);
    return {program, uniforms};
  }

  buffer(values) {
    const gl = this.gl, made = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, made);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    return made;
  }

  /** Makes a body to show. `places` are three arrays of positions. `scale` and `edge` are, for each axis, the metres
   * per step and the edge of the boxes, which is 0 for points. */
  body(places, scale, edge) {
    return {count: places[0].length, axes: places.map((axis) => this.buffer(axis)), scale, edge, size: Math.max(...edge)};
  }

  /** Sets the colours: three bytes for each point. */
  paint(body, colours) {
    if (body.colours) this.gl.deleteBuffer(body.colours);
    body.colours = this.buffer(colours);
  }

  show(bodies) {
    this.bodies = bodies;
    this.change();
  }

  /** Requests a picture. Several calls before the next frame draw it once. */
  change() {
    this.changed = performance.now();
    this.pending ||= requestAnimationFrame(() => this.drawIfReady());
  }

  /** Draws a new picture if the GPU has finished the last one, because queued pictures would block a slow page. If
   * pictures take long, a moving picture shows boxes as points, and fewer points. */
  drawIfReady() {
    this.pending = 0;
    const now = performance.now(), gl = this.gl;
    const isBusy = this.fence && gl.clientWaitSync(this.fence, 0, 0) === gl.TIMEOUT_EXPIRED;
    if (!isBusy && this.fence) {
      gl.deleteSync(this.fence);
      this.fence = null;
      if (!this.isRough) this.milliseconds = now - this.begun;
    }
    const rests = now - this.changed > 200;
    if (!isBusy && (this.changed > this.begun || (rests && this.isRough))) {
      this.isRough = this.milliseconds > 60 && !rests;
      this.begun = now;
      this.draw();
      this.fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    }
    if (this.fence || this.isRough) this.pending = requestAnimationFrame(() => this.drawIfReady());
  }

  draw() {
    const gl = this.gl, canvas = this.canvas, ratio = devicePixelRatio;
    const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio].map(Math.round);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, {width, height});
    gl.viewport(0, 0, width, height);
    const back = isDark() ? [0.07, 0.082, 0.102] : [0.933, 0.941, 0.953];
    gl.clearColor(...back, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const transform = this.camera.matrix(width / height);
    for (const body of this.bodies) this.drawBody(body, transform, height, ratio);
    ++this.frames;
  }

  drawBody(body, transform, height, ratio) {
    const gl = this.gl, pixels = height / (2 * Math.tan(this.camera.field / 2));
    const isSmall = pixels * body.size < 2.5 * ratio * this.camera.distance;
    const isBox = body.size > 0 && !isSmall && !this.isRough;
    const every = this.isRough ? Math.min(Math.ceil(this.milliseconds / 50), 8) : 1;
    const {program, uniforms} = this.programs[isBox ? "boxes" : "points"];
    gl.useProgram(program);
    gl.uniformMatrix4fv(uniforms.transform, false, transform);
    gl.uniform3fv(uniforms.scale, body.scale);
    gl.uniform3fv(uniforms.edge, body.edge);
    gl.uniform1i(uniforms.hollow, body.hollow ?? false);
    [...body.axes, body.colours].forEach((buffer, place) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(place);
      const [size, type, normalized] = place < 3 ? [1, gl.FLOAT, false] : [3, gl.UNSIGNED_BYTE, true];
      const bytes = place < 3 ? 4 : 3;
      gl.vertexAttribPointer(place, size, type, normalized, bytes * every, 0);
      gl.vertexAttribDivisor(place, isBox ? 1 : 0);
    });
    if (isBox) {
      gl.uniform3fv(uniforms.eye, this.camera.eye());
      gl.drawArraysInstanced(gl.TRIANGLES, 0, 18, body.count);
    } else {
      gl.uniform1f(uniforms.diameter, pixels * (body.size * 1.2 || body.diameter) * this.magnify);
      gl.uniform1f(uniforms.least, 1.6 * ratio * this.magnify);
      gl.drawArrays(gl.POINTS, 0, Math.floor(body.count / every));
    }
  }
}
