#include "tests/support/clouds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <unordered_set>

#include "tests/support/random.h"

namespace minuet {
namespace {

constexpr double kTau = 6.283185307179586;
constexpr double kNoHit = 1e30;
constexpr int64_t kRings = 128;  // beams of the scanner

struct Vector {
  double x = 0, y = 0, z = 0;
};

/// Sine of turns * tau by its series: the libraries of two systems differ in the last bit.
double sine(double turns) {
  double t = turns - std::floor(turns);  // [0, 1)
  if (t > 0.5) t -= 1;                   // (-0.5, 0.5]
  if (t > 0.25) t = 0.5 - t;
  if (t < -0.25) t = -0.5 - t;
  const double x = t * kTau;
  double term = x, sum = x;
  for (int n = 3; n < 20; n += 2) {
    term *= -x * x / (n * (n - 1));
    sum += term;
  }
  return sum;
}
double cosine(double turns) { return sine(turns + 0.25); }

struct Box {
  Vector least, greatest;
  double reflectivity;
};
struct Pillar {  // upright cylinder
  double x, y, radius, bottom, top, reflectivity;
};
struct Ball {
  Vector center;
  double radius, reflectivity;
  double density;  // share of the rays that a leaf stops
};

/// What a ray can meet.
struct Scene {
  std::vector<Box> boxes;
  std::vector<Pillar> pillars;
  std::vector<Ball> balls;
  bool ground = false;  // z = 0
  double reach = 100;
  double noise = 0.01;
};

/// Distance to the box from outside, or to its far wall from inside; d has no zero component.
double meet(const Box& box, const Vector& o, const Vector& d) {
  const double ax = (box.least.x - o.x) / d.x, bx = (box.greatest.x - o.x) / d.x;
  const double ay = (box.least.y - o.y) / d.y, by = (box.greatest.y - o.y) / d.y;
  const double az = (box.least.z - o.z) / d.z, bz = (box.greatest.z - o.z) / d.z;
  const double enter = std::max({std::min(ax, bx), std::min(ay, by), std::min(az, bz)});
  const double leave = std::min({std::max(ax, bx), std::max(ay, by), std::max(az, bz)});
  if (leave < enter || leave <= 0) return kNoHit;
  return enter > 0 ? enter : leave;
}

double meet(const Pillar& pillar, const Vector& o, const Vector& d) {
  const double ox = o.x - pillar.x, oy = o.y - pillar.y;
  const double a = d.x * d.x + d.y * d.y, b = ox * d.x + oy * d.y;
  const double c = ox * ox + oy * oy - pillar.radius * pillar.radius;
  const double root = b * b - a * c;
  if (root <= 0) return kNoHit;
  const double t = (-b - std::sqrt(root)) / a;
  const double z = o.z + t * d.z;
  return t > 0 && z >= pillar.bottom && z <= pillar.top ? t : kNoHit;
}

/// A crown is not a wall: the ray stops somewhere inside, or passes.
double meet(const Ball& ball, const Vector& o, const Vector& d, Random& random) {
  const Vector v{o.x - ball.center.x, o.y - ball.center.y, o.z - ball.center.z};
  const double b = v.x * d.x + v.y * d.y + v.z * d.z;
  const double c = v.x * v.x + v.y * v.y + v.z * v.z - ball.radius * ball.radius;
  const double root = b * b - c;
  if (root <= 0 || b >= 0) return kNoHit;
  if (random.uniform() > ball.density) return kNoHit;
  const double half = std::sqrt(root);
  const double depth = random.uniform();
  return -b - half + 2 * half * depth * depth;
}

struct Hit {
  double distance = kNoHit;
  double reflectivity = 0;
};

Hit cast(const Scene& scene, const Vector& o, const Vector& d, Random& random) {
  Hit hit;
  auto take = [&](double distance, double reflectivity) {
    if (distance < hit.distance) hit = {distance, reflectivity};
  };
  if (scene.ground && d.z < 0) take(-o.z / d.z, 0.2);
  for (const Box& box : scene.boxes) take(meet(box, o, d), box.reflectivity);
  for (const Pillar& pillar : scene.pillars) take(meet(pillar, o, d), pillar.reflectivity);
  for (const Ball& ball : scene.balls) take(meet(ball, o, d, random), ball.reflectivity);
  return hit;
}

/// As many as a cloud is given: whatever its scene, it comes to an end.
class Tries {
 public:
  explicit Tries(int64_t points) : most_(64 * points + kRings) {}
  bool another() {
    if (made_ == most_) return false;
    ++made_;
    return true;
  }
  int64_t made() const { return made_; }

 private:
  int64_t most_, made_ = 0;
};

/// A street along x: kerbs, rows of houses with gaps, parked cars, trees, lamp posts.
Scene make_street(double extent, Random& random) {
  Scene scene;
  scene.ground = true;
  scene.reach = extent / 2;
  scene.noise = 0.02;
  const double half = extent / 2;
  for (const double side : {-1.0, 1.0}) {
    for (double x = -half; x < half;) {
      const double width = random.uniform(8, 22), front = random.uniform(9, 16);
      const double a = side * front, b = side * (front + 12);
      scene.boxes.push_back({{x, std::min(a, b), 0},
                             {x + width, std::max(a, b), random.uniform(5, 16)},
                             random.uniform(0.3, 0.7)});
      x += width + (random.uniform() < 0.3 ? random.uniform(2, 9) : 0.05);
    }
    for (double x = -half; x < half; x += random.uniform(5, 14)) {
      const double y = side * random.uniform(3.6, 4.4);
      scene.boxes.push_back({{x, y - 0.9, 0.25}, {x + 4.2, y + 0.9, 1.5}, random.uniform(0.1, 0.9)});
    }
    for (double x = -half; x < half; x += random.uniform(7, 18)) {
      const double y = side * random.uniform(5.5, 8);
      scene.pillars.push_back({x, y, random.uniform(0.06, 0.25), 0, random.uniform(3, 8), 0.4});
      if (random.uniform() < 0.6) {
        scene.balls.push_back({{x, y, random.uniform(3.5, 6)}, random.uniform(1, 2.4), 0.3, 0.75});
      }
    }
  }
  return scene;
}

Scene make_room(double extent, Random& random) {
  Scene scene;
  const double x = extent / 2, y = extent * 0.375, z = std::min(3.0, extent * 0.4);
  scene.reach = 4 * extent;
  scene.noise = 0.004;
  // The scanner is inside this one, so its rays end on the walls, the floor and the ceiling.
  scene.boxes.push_back({{-x, -y, 0}, {x, y, z}, 0.8});
  for (int i = 0; i < 14; ++i) {
    const double w = extent * random.uniform(0.04, 0.15), d = extent * random.uniform(0.04, 0.1);
    const double cx = random.uniform(-x + w, x - w), cy = random.uniform(-y + d, y - d);
    if (std::abs(cx) < w + 0.05 * extent && std::abs(cy) < d + 0.05 * extent) continue;
    scene.boxes.push_back(
        {{cx - w, cy - d, 0}, {cx + w, cy + d, z * random.uniform(0.2, 0.8)}, random.uniform()});
  }
  return scene;
}

/// Rays in rings of equal elevation, azimuths by the golden ratio, so that any number of them is
/// spread evenly; goes on until `count` of them met something.
std::vector<float> scan(const Scene& scene, const Vector& origin, double lowest, double highest,
                        int64_t count, Tries& tries, Random& random) {
  std::vector<float> points;
  points.reserve(count * 4);
  const double start = random.uniform();
  for (int64_t ray = 0; static_cast<int64_t>(points.size()) < count * 4 && tries.another(); ++ray) {
    const int64_t ring = ray % kRings;
    const double azimuth = start + static_cast<double>(ray / kRings) * 0.6180339887498949 + 1e-9;
    const double elevation = lowest + (highest - lowest) * (static_cast<double>(ring) + 0.5) / kRings;
    const double flat = cosine(elevation);
    const Vector d{flat * cosine(azimuth), flat * sine(azimuth), sine(elevation)};
    const Hit hit = cast(scene, origin, d, random);
    if (hit.distance > scene.reach) continue;
    const double t = hit.distance + scene.noise * random.normal();
    points.push_back(static_cast<float>(origin.x + t * d.x));
    points.push_back(static_cast<float>(origin.y + t * d.y));
    points.push_back(static_cast<float>(origin.z + t * d.z));
    points.push_back(static_cast<float>(std::clamp(hit.reflectivity + 0.05 * random.normal(), 0.0, 1.0)));
  }
  return points;
}

std::vector<float> sample_object(double extent, int64_t count, Tries& tries, Random& random) {
  const double ring = 0.36 * extent, tube = 0.14 * extent, ball = 0.18 * extent;
  const double ring_area = kTau * kTau * ring * tube, ball_area = 2 * kTau * ball * ball;
  std::vector<float> points;
  points.reserve(count * 4);
  while (static_cast<int64_t>(points.size()) < count * 4 && tries.another()) {
    const double u = random.uniform(), v = random.uniform();
    Vector p;
    if (random.uniform() * (ring_area + ball_area) < ring_area) {
      // Parameter cells near the hole are smaller: accept in proportion to their area.
      if (random.uniform() * (ring + tube) > ring + tube * cosine(v)) continue;
      const double r = ring + tube * cosine(v);
      p = {r * cosine(u), r * sine(u), tube * sine(v)};
    } else {
      const double z = 2 * v - 1, r = std::sqrt(1 - z * z);
      p = {ball * r * cosine(u), ball * r * sine(u), ball * z};
    }
    for (const double value : {p.x, p.y, p.z, 0.5 + 0.5 * sine(3 * u + v)}) {
      points.push_back(static_cast<float>(value));
    }
  }
  return points;
}

std::vector<float> sample_cube(double extent, int64_t count, Random& random) {
  std::vector<float> points(count * 4);
  for (size_t i = 0; i < points.size(); ++i) {
    const double value = random.uniform();
    points[i] = static_cast<float>(i % 4 == 3 ? value : (value - 0.5) * extent);
  }
  return points;
}

double default_extent(CloudKind kind) {
  switch (kind) {
    case CloudKind::Lidar:
      return 200;
    case CloudKind::Room:
      return 8;
    case CloudKind::Object:
      return 1;
    case CloudKind::Random:
      return 40;
  }
  return 1;
}

}  // namespace

Extents extents_of(CloudKind kind) {
  switch (kind) {
    case CloudKind::Lidar:
      // From 10 m on the ground stops 12 of 128 beams, whatever else the street has. Every ray looks at all
      // of the street, whose length is bounded therefore.
      return {10, 1000};
    case CloudKind::Room:
      // The scanner is inside, and in none of the furniture. No wall is farther away than where the beams
      // nearest to the horizontal meet the floor and the ceiling, 135 m, so that the cloud is as wide as
      // asked.
      return {0.5, 250};
    case CloudKind::Object:
    case CloudKind::Random:
      return {1e-3, 1e6};
  }
  return {1, 0};
}

std::vector<float> make_cloud(const CloudOptions& options, CloudWork* work) {
  const int64_t count = options.points > 0 ? options.points : 120000;
  const double extent = options.extent == 0 ? default_extent(options.kind) : options.extent;
  const Extents extents = extents_of(options.kind);
  if (!(extent >= extents.least && extent <= extents.greatest)) return {};
  Random random(options.seed * 0x2545f4914f6cdd1dull + static_cast<uint64_t>(options.kind));
  Tries tries(count);
  Scene scene;
  std::vector<float> points;
  switch (options.kind) {
    case CloudKind::Lidar:
      scene = make_street(extent, random);
      // 128 beams from 25 degrees below to 15 above the horizon; the roof is at 1.8 m.
      points = scan(scene, {0.013, 0.017, 1.8}, -25.0 / 360, 15.0 / 360, count, tries, random);
      break;
    case CloudKind::Room:
      scene = make_room(extent, random);
      points = scan(scene, {0.013, 0.017, 0.45 * scene.boxes[0].greatest.z}, -60.0 / 360, 80.0 / 360, count,
                    tries, random);
      break;
    case CloudKind::Object:
      points = sample_object(extent, count, tries, random);
      break;
    case CloudKind::Random:
      points = sample_cube(extent, count, random);
      break;
  }
  if (work) {
    const size_t things = scene.boxes.size() + scene.pillars.size() + scene.balls.size();
    *work = {tries.made(), static_cast<int64_t>(things)};
  }
  if (static_cast<int64_t>(points.size()) != count * 4) return {};
  return points;
}

std::vector<int32_t> voxelize_cloud(const std::vector<float>& points, float voxel_size) {
  std::vector<int32_t> voxels;
  std::unordered_set<uint64_t> seen;
  seen.reserve(points.size() / 4);
  for (size_t i = 0; i + 4 <= points.size(); i += 4) {
    std::array<int32_t, 3> voxel;
    uint64_t key = 0;
    for (size_t a = 0; a < 3; ++a) {
      voxel[a] = static_cast<int32_t>(std::floor(points[i + a] / voxel_size));
      key = key << 21 | (static_cast<uint64_t>(voxel[a] + (1 << 20)) & 0x1fffff);
    }
    if (!seen.insert(key).second) continue;
    voxels.insert(voxels.end(), {0, voxel[0], voxel[1], voxel[2]});
  }
  return voxels;
}

std::vector<int32_t> make_voxels(const VoxelOptions& options) {
  Random random(options.seed);
  const uint64_t extent = static_cast<uint64_t>(options.extent);
  std::vector<int32_t> items;
  for (int32_t b = 0; b < options.batches; ++b) {
    if (b != options.empty_batch) items.push_back(b);
  }
  const double places =
      std::pow(std::max(options.extent, 0), options.ndim) * static_cast<double>(items.size());
  if (static_cast<double>(options.count) > places) {
    throw std::invalid_argument("make_voxels: " + std::to_string(options.count) + " voxels do not fit in " +
                                std::to_string(items.size()) + " boxes of " + std::to_string(options.extent) +
                                "^" + std::to_string(options.ndim));
  }
  std::vector<int32_t> voxels;
  voxels.reserve(options.count * (1 + options.ndim));
  std::unordered_set<uint64_t> seen;
  seen.reserve(options.count);
  while (static_cast<int64_t>(seen.size()) < options.count) {
    const uint64_t item = random.below(items.size());
    uint64_t key = item;
    std::array<int32_t, 4> voxel{};
    for (int a = 0; a < options.ndim; ++a) {
      const uint64_t cell = random.below(extent);
      key = key * extent + cell;
      voxel[a] = (options.least + static_cast<int32_t>(cell)) * options.tensor_stride;
    }
    if (!seen.insert(key).second) continue;
    voxels.push_back(items[item]);
    voxels.insert(voxels.end(), voxel.begin(), voxel.begin() + options.ndim);
  }
  return voxels;
}

std::vector<int32_t> make_shell(int32_t resolution, uint64_t seed) {
  // Distances of centres along an axis, and both radii, in half voxels: squares are whole numbers, the inner
  // radius's four times.
  const int64_t edge = resolution, outer = edge * edge;
  const int64_t inner = std::max<int64_t>(2 * edge - 5, 0) * std::max<int64_t>(2 * edge - 5, 0);
  const auto square = [&](int64_t cell) { return (2 * cell + 1 - edge) * (2 * cell + 1 - edge); };
  std::vector<std::array<int32_t, 4>> shell;
  for (int32_t x = 0; x < resolution; ++x) {
    for (int32_t y = 0; y < resolution; ++y) {
      const int64_t across = square(x) + square(y);
      if (across > outer) continue;
      const auto reach = static_cast<int64_t>(std::sqrt(static_cast<double>(outer - across)));
      // From the top of this column inward, and its mirror image.
      for (auto z = static_cast<int32_t>((edge - 1 + reach) / 2); 2 * z >= resolution - 1; --z) {
        if (4 * (across + square(z)) < inner) break;
        shell.push_back({0, x, y, z});
        if (2 * z != resolution - 1) shell.push_back({0, x, y, resolution - 1 - z});
      }
    }
  }
  Random random(seed);
  for (size_t i = shell.size(); i > 1; --i) std::swap(shell[i - 1], shell[random.below(i)]);
  std::vector<int32_t> voxels;
  voxels.reserve(4 * shell.size());
  for (const auto& voxel : shell) voxels.insert(voxels.end(), voxel.begin(), voxel.end());
  return voxels;
}

int32_t extent_for_neighbours(int ndim, int64_t count, double neighbours) {
  double cells = 1;
  for (int a = 0; a < ndim; ++a) cells *= 3;
  // count / extent^ndim is the chance that a neighbour is there.
  const double chance = std::clamp((neighbours - 1) / (cells - 1), 1e-6, 0.5);
  int32_t extent = 1;
  auto volume = [&] {
    double product = 1;
    for (int a = 0; a < ndim; ++a) product *= extent;
    return product;
  };
  while (volume() * chance < static_cast<double>(count)) ++extent;
  return extent;
}

}  // namespace minuet
